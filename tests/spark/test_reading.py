"""Reading a release: with the commands, and as the how-to guide does it elsewhere."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion.ops import releases
from medallion.storage.lake import Lake

SUMMARY = "gold_order_status_summary"
SNIPPETS = re.findall(r"```python\n(.*?)```", Path("docs/how-to/read-releases.md").read_text(), re.S)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two releases of one table, and a third version that is not published."""
    lake = Lake(str(tmp_path / "lake"))
    for version, orders in enumerate((1, 2, 3)):
        rows = [{"order_status": "delivered", "order_count": orders}, {"order_status": "shipped", "order_count": 7}]
        write_deltalake(lake.path(SUMMARY), pa.Table.from_pylist(rows[: version + 1]), mode="overwrite")
        if version < 2:
            last = releases.latest(lake)
            hour = f"2025-11-30T0{version}"
            releases.publish(
                lake, after=last, hour=hour, run_id="r", strategy="full", contents=releases.Contents({SUMMARY: version})
            )
    return lake


def medallion(lake: Lake, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("medallion")), *words]
    return subprocess.run(command, env={"MEDALLION_LAKE": lake.root}, capture_output=True, text=True, timeout=60)


def test_a_query_reads_the_newest_release_and_not_what_was_written_since(lake: Lake) -> None:
    done = medallion(lake, "query", f"SELECT * FROM {SUMMARY} ORDER BY order_status", "--format", "csv")
    assert done.stdout.splitlines() == ["order_status,order_count", "delivered,2", "shipped,7"]


def test_a_query_reads_an_older_release_by_its_number(lake: Lake) -> None:
    done = medallion(lake, "query", f"SELECT * FROM {SUMMARY}", "--release", "1", "--format", "json")
    assert json.loads(done.stdout) == [{"order_status": "delivered", "order_count": 1}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["query", "SELECT nonsense"], "the query fails: Binder Error"),
        (["query", "DROP TABLE x"], "a release can only be read: give one SELECT"),
        (["query", "SELECT 1", "--release", "9"], "there is no release 9: choose 1 to 2"),
        (["release", "show", "0"], "there is no release 0: choose 1 to 2"),
        (["release", "diff", "1", "2", "--table", "nope"], "no table is called 'nope'"),
        (["quarantine", "show", "nope"], "no feed is called 'nope': there are"),
        (["quarantine", "replay", "orders", "--hour", "2025-11-30T00"], "quarantine has no line of orders"),
        (["maintain", "--keep-hours", "-1"], "-1 is not in the range"),
        (["refresh", "--restate", "2025-11-30T00", "--hour", "2025-11-30T00"], "give --restate alone"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(lake: Lake, words: list[str], message: str) -> None:
    done = medallion(lake, *words)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_releases_are_listed_shown_and_compared(lake: Lake) -> None:
    listed = json.loads(medallion(lake, "release", "list", "--format", "json").stdout)
    assert [(row["release"], row["hour"]) for row in listed] == [(1, "2025-11-30T00"), (2, "2025-11-30T01")]
    (shown,) = json.loads(medallion(lake, "release", "show", "1", "--format", "json").stdout)
    assert (shown["table"], shown["version"], shown["rows"]) == (SUMMARY, 0, 1)
    differing = medallion(lake, "release", "diff", "1", "2", "--format", "csv").stdout.splitlines()
    assert f"{SUMMARY},1,0,1" in differing
    rows = medallion(lake, "release", "diff", "1", "2", "--table", SUMMARY, "--format", "csv").stdout.splitlines()
    assert rows == ["side,order_status,order_count", "-,delivered,1", "+,delivered,2", "+,shipped,7"]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.splitlines()[0].strip("# ")[:12])
def test_snippet_of_the_how_to_guide_reads_the_newest_release(
    snippet: str, lake: Lake, spark: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(lake.root).parent)
    snippet = re.sub(r'"lake/', f'"{lake.root}/', snippet)
    exec(snippet, {"spark": spark})
    told = capfd.readouterr().out
    assert re.search(r"delivered\D+2\b", told) and re.search(r"shipped\D+7\b", told)
    assert len(SNIPPETS) == 3
