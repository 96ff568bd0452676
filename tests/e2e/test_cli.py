"""The command as a person meets it: exit codes, one-line errors, help; nothing here needs a Spark session."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from medallion.ops import event_schema
from medallion.ops.event_log import EventLog
from medallion.storage.lake import Lake
from tests.shop import PROJECT


def medallion(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "medallion", *words]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEDALLION_")}
    clean |= {
        "MEDALLION_PROJECT": str(PROJECT),
        "MEDALLION_LAKE": str(cwd / "lake"),
        "MEDALLION_SOURCE": str(cwd / "data" / "source"),
    }
    return subprocess.run(command, cwd=cwd, env=clean | environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["refresh", "--hour", "yesterday"], "write YYYY-MM-DDTHH in UTC"),
        (["refresh", "--hour", "../../etc"], "write YYYY-MM-DDTHH in UTC"),
        (["refresh", "--from-hour", "2025-11-30T00"], "give --to-hour too"),
        (["refresh", "--from-hour", "2025-11-30T02", "--to-hour", "2025-11-30T01"], "ends before it starts"),
        (["refresh", "--strategy", "magic"], "'magic' is not one of 'full', 'incremental'"),
        (["refresh", "--hour", "2025-11-30T00"], "run medallion load first"),
        (["load"], "does not exist: name another in MEDALLION_SOURCE or medallion.toml"),
        (["step", "fly"], "'fly' is not one of 'land', 'apply', 'refresh', 'check', 'publish'"),
        (["step", "refresh", "--hour", "2025-11-30T00"], "needs --layer, one of silver, gold"),
        (["step", "check", "--layer", "copper"], "needs --layer, one of bronze, silver, gold"),
        (["source", "generate", "x", "--days", "0"], "days"),
        (["fly"], "No such command 'fly'"),
        (["status", "--format", "xml"], "'xml' is not one of 'table', 'json'"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(tmp_path: Path, words: list[str], message: str) -> None:
    done = medallion(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_lake_that_was_not_loaded_says_so(tmp_path: Path) -> None:
    (tmp_path / "data" / "source").mkdir(parents=True)
    done = medallion("refresh", cwd=tmp_path)
    assert (done.returncode, "run medallion load first" in done.stderr) == (2, True)


def test_a_lake_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "data" / "source").mkdir(parents=True)
    (tmp_path / "lake").write_text("a file")
    done = medallion("load", cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert str(tmp_path / "lake") in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_snapshot_without_tables_names_the_first_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "data" / "source").mkdir(parents=True)
    done = medallion("load", cwd=tmp_path)
    assert done.returncode == 1
    assert "has no snapshot/bronze_clickstream_events" in done.stderr


def test_help_shows_the_way_from_nothing_to_a_first_hour(tmp_path: Path) -> None:
    done = medallion("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in ("init bikes && cd bikes", "load", "refresh", "status", "events"):
        assert f"medallion {command}" in done.stdout


def test_status_and_events_of_an_empty_lake_say_what_to_do(tmp_path: Path) -> None:
    for command in ("status", "events"):
        said = medallion(command, cwd=tmp_path)
        assert said.returncode == 2
        assert f"lake {tmp_path / 'lake'} does not exist: run medallion load" in said.stderr


def test_events_come_as_table_json_and_csv(tmp_path: Path) -> None:
    log = EventLog(Lake(str(tmp_path / "lake")), run_id="r", hour="2025-11-30T00", strategy="full", attempt=1)
    log.add("refresh", "gold", "gold_inventory_risk", seconds=1.25, rows_out=7, details={"note": "[x]"})
    log.flush()
    assert "gold_inventory_risk" in medallion("events", cwd=tmp_path).stdout
    (row,) = json.loads(medallion("events", "--format", "json", cwd=tmp_path).stdout)
    assert (row["seconds"], row["rows_out"], row["details"]) == (1.25, 7, {"note": "[x]"})
    (line,) = csv.DictReader(medallion("events", "--format", "csv", cwd=tmp_path).stdout.splitlines())
    assert list(line) == list(event_schema.COLUMNS)
    assert medallion("events", "--hour", "2025-11-30T01", "--format", "json", cwd=tmp_path).stdout.strip() == "[]"
