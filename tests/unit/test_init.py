"""A new project has all that a first refresh needs, under the name of its folder, the same each time."""

import filecmp
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

from medallion.cli.main import cli
from medallion.derive.project import graph_of
from medallion.errors import UsageError
from medallion.ingest.snapshot_source import open_snapshot
from medallion.ingest.source import open_source
from medallion.inspect.source_check import check_source
from medallion.model.refresh_lock import NAME, is_derived_from
from medallion.project import find_template, project_at
from medallion.storage.lake import Lake
from tests.shop import PROJECT


def make(folder: Path) -> str:
    done = CliRunner().invoke(cli, ["init", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_project_has_tables_promises_and_a_proof_of_each_method(tmp_path: Path) -> None:
    said = make(tmp_path / "City Bikes")
    project = project_at(tmp_path / "City Bikes")
    assert (project.name, project.layers) == ("city_bikes", ("bronze", "silver", "gold"))
    assert "project city_bikes" in said and "medallion load && medallion refresh && pytest" in said
    tables = project.registry()
    assert [*tables.tables] == ["bronze_stations", "bronze_trips", "silver_trips", "gold_daily_trips"]
    assert project.suite("gold").keys() == {"gold_daily_trips"}
    assert is_derived_from(graph_of(project.registry(extras=True)), project.root / NAME)
    methods = [tables[name].refresh_method for name in ("silver_trips", "gold_daily_trips")]
    assert methods == ["upsert on trip_id", "incremental aggregate of days"]


def test_source_and_files_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "other"):
        make(tmp_path / name)
    cut = filecmp.dircmp(tmp_path / "one" / "source" / "cdc", tmp_path / "other" / "source" / "cdc")
    assert cut.common_dirs == ["stations", "trips"]
    for feed, compared in cut.subdirs.items():
        assert compared.same_files and not compared.diff_files, feed
    assert not [*(tmp_path / "one").rglob("__pycache__")] and (tmp_path / "one" / ".gitignore").is_file()


def test_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    command = [sys.executable, "-m", "medallion", "init", str(tmp_path)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "is not empty: name a new folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("folder", ["dags", "plugins"])
def test_dags_and_plugins_are_the_lines_that_the_shop_has(folder: str) -> None:
    for file in (find_template() / folder).glob("*.py"):
        assert file.read_text() == (PROJECT / folder / file.name).read_text(), file.name


def test_spark_is_given_what_the_shop_gives_it() -> None:
    assert (find_template() / "spark_jobs/run.py").read_text() == (PROJECT / "spark_jobs/run.py").read_text()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("100%x", "contains '%'"),
        ("a[1]", "contains '\\['"),
        ("x" * 300, "File name too long"),
        ("file/x", "Not a directory"),
    ],
)
def test_folder_that_can_be_none_is_refused_before_anything_is_written(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(cli, ["init", str(tmp_path / name)])
    assert isinstance(done.exception, UsageError) and re.search(reason, str(done.exception))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("form", ["insert_delete", "debezium", "dms", "delta"])
def test_source_of_a_new_project_holds_the_same_changes_in_each_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    for name in ("MEDALLION_LAKE", "MEDALLION_SOURCE", "MEDALLION_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(cli, ["init", str(tmp_path / form), "--format", form], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    project = project_at(tmp_path / form)
    source, feeds = open_source(project.settings({})), project.registry().feeds
    assert {feed.delivery.format for feed in feeds} == {form}
    found = check_source(source, feeds, None, max_bad_lines=0)
    assert found.is_fine, found
    assert found.whole == tuple(f"2025-11-30T{hour:02}" for hour in range(3))
    stations, trips = found.feeds
    assert (stations.hours, trips.hours, trips.notes, trips.rejected_lines) == (1, 3, (), 0)
    assert trips.changes == {"insert_delete": 12, "debezium": 11, "dms": 11, "delta": 12}[form]
    if form != "delta":  # whose deletions come first
        assert {name: trips.first[name] for name in ("trip_id", "minutes", "fare", "started_at")} == {
            "trip_id": 1021,
            "minutes": 31,
            "fare": Decimal("2.55"),
            "started_at": datetime(2025, 11, 30, 2, tzinfo=UTC),
        }
    lake = Lake(str(tmp_path / "lake"))
    assert [open_snapshot(source, feed, lake).rows for feed in feeds] == [6, 560]
