"""A release names Delta tables by id: another table under the same path is never read in the place of one of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.errors import MedallionError
from medallion.inspect.query import diff, open_release
from medallion.inspect.validate import problems, validate
from medallion.model.table import Table
from medallion.ops import releases
from medallion.ops.releases import Release
from medallion.pipeline.driver import Driver
from medallion.pipeline.rollback import rollback
from medallion.pipeline.run import Run
from medallion.settings import Settings
from medallion.storage import files
from medallion.storage.lake import Lake
from tests.shop import build

NAME = "silver_customers"
H0, H1, H2 = (f"2025-11-30T0{hour}" for hour in range(3))
TABLES = build([Table(keys=("id",), query="SELECT 1 AS id", name=NAME, doc="One.")])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two releases of one table: with the row 1, then with 1 and 2."""
    made = Lake(str(tmp_path / "lake"))
    last = None
    for version, hour in enumerate((H0, H1)):
        write(made, [*range(1, version + 2)])
        last = publish(made, hour, version, last)
    return made


def write(lake: Lake, ids: list[int]) -> None:
    write_deltalake(lake.path(NAME), pa.table({"id": pa.array(ids, pa.int64())}), mode="overwrite")


def publish(lake: Lake, hour: str, version: int, after: Release | None) -> Release:
    return releases.publish(
        lake, after=after, hour=hour, run_id="r", strategy="full", contents=releases.Contents({NAME: version})
    )


def rebuild(lake: Lake, *, set_aside: bool) -> None:
    """Put another table in its place, with other rows at the same versions."""
    if set_aside:
        lake.move_damaged_table(NAME)
    else:
        files.remove_tree(lake.folder(NAME))
    write(lake, [7])
    write(lake, [8])


def rows(lake: Lake, number: int | None = None) -> list[Any]:
    with open_release(lake, releases.require_release(lake, number)) as connection:
        return [key for (key,) in connection.execute(f"SELECT id FROM {NAME} ORDER BY id").fetchall()]


def roll_back(lake: Lake, number: int) -> None:
    settings = Settings.from_environment().replace(lake=lake.root)
    rollback(Run(settings, None, "back"), Driver(settings, lambda _: None), number)


def test_a_release_names_the_id_of_each_table(lake: Lake) -> None:
    (first, second) = releases.read_all(lake)
    assert first.table_ids == second.table_ids == {NAME: DeltaTable(lake.path(NAME)).metadata().id}


def test_a_release_of_a_rebuilt_table_is_refused_in_words(lake: Lake) -> None:
    rebuild(lake, set_aside=False)
    for number in (1, 2):
        with pytest.raises(
            MedallionError, match=f"{NAME} was rebuilt since the release that names version {number - 1}"
        ):
            rows(lake, number)


def test_a_release_is_read_from_where_its_table_was_set_aside(lake: Lake) -> None:
    rebuild(lake, set_aside=True)
    assert (rows(lake, 1), rows(lake, 2)) == ([1], [1, 2])
    third = publish(lake, H2, 1, releases.latest(lake))
    assert (rows(lake, 2), rows(lake)) == ([1, 2], [8])
    (difference,) = diff(lake, releases.require_release(lake, 2), third, TABLES)
    assert (difference.added, difference.removed) == (1, 2), "the same version of another table is no equal one"


def test_a_rebuilt_table_with_fewer_versions_is_refused_in_words(lake: Lake) -> None:
    files.remove_tree(lake.folder(NAME))
    write(lake, [7])
    with pytest.raises(MedallionError, match=f"{NAME} was rebuilt since the release that names version 1"):
        rows(lake, 2)


@pytest.mark.parametrize("set_aside", [True, False])
def test_a_roll_back_to_a_rebuilt_table_is_refused(lake: Lake, set_aside: bool) -> None:
    rebuild(lake, set_aside=set_aside)
    publish(lake, H2, 1, releases.latest(lake))
    with pytest.raises(MedallionError, match=f"release 1 cannot be restored: {NAME} was rebuilt since"):
        roll_back(lake, 1)
    assert [release.hour for release in releases.read_all(lake)] == [H0, H1, H2]


def test_a_roll_back_names_the_table_by_its_id(lake: Lake) -> None:
    roll_back(lake, 1)
    assert rows(lake) == [1]
    assert releases.require_release(lake, 3).table_ids == releases.require_release(lake, 1).table_ids


def test_validate_tells_of_a_rebuilt_table(lake: Lake) -> None:
    assert problems(validate(lake, TABLES, releases.require_release(lake, 2), H1)) == []
    rebuild(lake, set_aside=True)
    (problem,) = problems(validate(lake, TABLES, releases.require_release(lake, 2), H1))
    assert problem.startswith(f"{NAME}: {NAME} was rebuilt since the release that names version 1")


@pytest.fixture
def old(tmp_path: Path) -> Lake:
    """A lake whose one release is from before ids were recorded."""
    made = Lake(str(tmp_path / "old"))
    write(made, [1])
    schema = releases.releases_as_arrow([]).schema
    release = replace(publish(Lake(str(tmp_path / "other")), H0, 0, None), table_ids={})
    row = {**vars(release), "versions": [(NAME, 0)]}
    former = pa.schema([field for field in schema if field.name not in {"table_ids", "fence"}])
    write_deltalake(made.releases, pa.Table.from_pylist([row], schema=former))
    return made


def test_release_without_table_ids_is_read_and_followed(old: Lake) -> None:
    assert rows(old) == [1]
    write(old, [1, 2])
    publish(old, H1, 1, releases.latest(old))
    assert [release.table_ids for release in releases.read_all(old)] == [{}, releases.current_ids(old, [NAME])]
    assert (rows(old, 1), rows(old, 2)) == ([1], [1, 2])
    roll_back(old, 1)
    assert rows(old) == [1]


def test_release_without_table_ids_detects_a_younger_table(old: Lake) -> None:
    rebuild(old, set_aside=False)
    with pytest.raises(MedallionError, match=f"{NAME} was rebuilt since"):
        rows(old)
