"""TPC-H as a second project: after an incremental hour, each table has the rows of DuckDB's own query."""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from medallion.project import project_at
from tests.part_of_shop import copy_methods
from tests.shop import PROJECT
from tests.warm_spark import warm_spark

EXAMPLE = PROJECT / "examples" / "tpch"
H0, H1 = "2025-11-30T00", "2025-11-30T01"
SOME = frozenset({1, 13, 18, 22})  # of every kind one; all 22 in `make test-all`
ALL = frozenset(range(1, 23))
ONE_ROW = {6, 14, 17, 19}  # a column `scope` stands before what DuckDB's query gives
SCALE = 0.01


def run(project: Path, *words: str, **attached: str) -> str:
    """Run a command of the project, and return what it printed. Fails with what it said."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("MEDALLION_")} | attached
    command = [sys.executable, "-m", "medallion", *words]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module", params=[SOME, pytest.param(ALL, marks=pytest.mark.long)], ids=["some", "all"])
def numbers(request: pytest.FixtureRequest) -> frozenset[int]:
    """The queries that are tables of the project."""
    return frozenset(request.param)


@pytest.fixture(scope="module")
def project(numbers: frozenset[int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with a lake that was loaded, and after an incremental hour."""
    ignored = shutil.ignore_patterns("lake", "source", "__pycache__")
    root = Path(shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("tpch") / "project", ignore=ignored))
    for module in (root / "spark_jobs" / "gold").glob("q*.py"):
        if int(module.stem.removeprefix("q")) not in numbers:
            module.unlink()
            continue
        # by cost so small a scale would be recomputed
        module.write_text(module.read_text().replace("TABLE = Table(", 'TABLE = Table(\n    refresh="incremental",'))
    copy_methods(EXAMPLE, project_at(root).registry(), root)  # another policy changes none of them
    run(root, "source", "generate", "source", "--scale", str(SCALE), "--hours", "2")
    with warm_spark() as warm:
        warm.jvm()
        run(root, "load", **warm.attached)
        run(root, "refresh", "--hour", H0, "--strategy", "incremental", **warm.attached)
    return root


@pytest.fixture(scope="module")
def next_hour(project: Path) -> Path:
    """The project after the next hour."""
    run(project, "refresh", "--hour", H1, "--strategy", "incremental")
    return project


@pytest.fixture(scope="module")
def answers(numbers: frozenset[int]) -> Iterator[dict[str, dict[int, list[Sequence[Any]]]]]:
    """DuckDB's answers by hour and number of the query."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        from tpch_source.data import change_hour, tpch

        found = {}
        with tpch(SCALE) as connection:
            queries = connection.execute("FROM tpch_queries()").fetchall()
            for number, hour in enumerate((H0, H1), 1):
                change_hour(connection, number)
                found[hour] = {n: connection.execute(query).fetchall() for n, query in queries if n in numbers}
        yield found


def as_rows(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows in one order, decimals as floats."""
    plain = [tuple(float(value) if isinstance(value, Decimal) else value for value in row) for row in rows]
    return sorted(plain, key=lambda row: [f"{v:.6g}" if isinstance(v, float) else str(v) for v in row])


def are_equal(ours: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]]) -> bool:
    def same(one: Any, other: Any) -> bool:
        if isinstance(one, float) and isinstance(other, float):
            return math.isclose(one, other, rel_tol=1e-9)
        return str(one) == str(other)

    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(same, a, b)) for a, b in zip(ours, theirs, strict=True)
    )


def table_at(project: Path, hour: str, table: str) -> list[tuple[Any, ...]]:
    from deltalake import DeltaTable

    from medallion.ops import releases
    from medallion.storage.lake import Lake

    lake = Lake(str(project / "lake"))
    (release,) = (release for release in releases.read_all(lake) if release.hour == hour)
    rows = DeltaTable(lake.path(table), version=release.versions[table]).to_pyarrow_table().to_pylist()
    return [tuple(row.values()) for row in rows]


@pytest.mark.timeout(900)
def test_each_query_has_duckdbs_rows_after_an_hour(
    project: Path, answers: dict[str, dict[int, list[Sequence[Any]]]]
) -> None:
    require_answers(project, answers, H0)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_each_query_has_duckdbs_rows_after_the_next_hour(
    next_hour: Path, answers: dict[str, dict[int, list[Sequence[Any]]]]
) -> None:
    require_answers(next_hour, answers, H1)


def require_answers(project: Path, answers: dict[str, dict[int, list[Sequence[Any]]]], hour: str) -> None:
    wrong = []
    for number, theirs in answers[hour].items():
        rows = [row[number in ONE_ROW :] for row in table_at(project, hour, f"gold_q{number:02}")]
        if not are_equal(as_rows(rows), as_rows(theirs)):
            wrong.append((number, as_rows(rows)[:3], as_rows(theirs)[:3]))
    assert not wrong
    assert answers[hour]


def test_hours_change_most_answers(answers: dict[str, dict[int, list[Sequence[Any]]]]) -> None:
    changed = [n for n in answers[H0] if answers[H0][n] != answers[H1][n]]
    assert len(changed) >= len(answers[H0]) * 0.4, "else the hours would prove little"


def test_each_query_is_refreshed_by_what_changed(project: Path, numbers: frozenset[int]) -> None:
    rows = json.loads(run(project, "events", "--format", "json"))
    hours = {
        (row["table_name"], row["hour"]): (row["details"]["method"], row["details"].get("note"))
        for row in rows
        if row["event_type"] == "refresh" and row["hour"] == H0 and (row["table_name"] or "").startswith("gold")
    }
    assert len(hours) == len(numbers)
    assert {key: found for key, found in hours.items() if found[0] not in {"incremental aggregate", "unchanged"}} == {}
    assert not [note for method, note in hours.values() if note and "rebuilt" in note]


def test_strategies_are_those_that_were_asked_for(project: Path) -> None:
    rows = json.loads(run(project, "events", "--format", "json"))
    published = [row for row in rows if row["event_type"] == "publish" and row["hour"] != H1]
    assert {(row["hour"], row["strategy"]) for row in published} == {(None, "full"), (H0, "incremental")}
