"""The benchmark without its drivers: what it refuses, how it proves rows equal, and what its page says."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from bench import runner, sources
from bench.choices import Refresh, judge
from bench.dag import target_rows
from bench.drivers import Taken
from bench.duck import translated
from bench.plan import FIRST_HOUR, PHASES, Measure, Plan, hours_of
from bench.report import crossover, render
from bench.report_tables import bytes_table, choices_table
from bench.results import read_results, write_results
from medallion.errors import MedallionError, UsageError
from medallion.inspect.lake_difference import differing
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Table
from medallion.ops import releases
from medallion.ops.event_schema import EventRow
from medallion.settings import Settings
from medallion.storage.lake import Lake
from tests.shop import registry

TABLE = Table(keys=("k",), query="SELECT 1", name="gold_numbers", layer="gold")


def lake(root: Path, *rows: tuple[Any, ...]) -> Lake:
    """One table of a key, a whole number, a double, published."""
    made = Lake(str(root))
    columns = [
        pa.array([row[n] for row in rows], kind) for n, kind in enumerate((pa.string(), pa.int64(), pa.float64()))
    ]
    write_deltalake(made.path(TABLE.name), pa.table(columns, names=["k", "n", "x"]))
    releases.publish(
        made, after=None, hour=None, run_id="r", strategy="full", contents=releases.Contents({TABLE.name: 0})
    )
    return made


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([("b", 2, 0.5), ("a", 1, 1e9)], []),
        ([("a", 1, 1e9 + 1), ("b", 2, 0.5)], []),  # a rounding of one in a billion
        ([("a", 1, 1.00001e9), ("b", 2, 0.5)], ["gold_numbers (1 rows)"]),
        ([("a", 3, 1e9), ("b", 2, 0.5)], ["gold_numbers (1 rows)"]),
        ([("a", 1, None), ("b", 2, 0.5)], ["gold_numbers (1 rows)"]),
        ([("a", 1, 1e9)], ["gold_numbers (1 rows)"]),
        ([("a", 1, 1e9), ("b", 2, 0.5), (None, 1, 1.0)], ["gold_numbers (1 rows)"]),
    ],
)
def test_rows_are_equal_up_to_rounding_and_no_further(tmp_path: Path, rows: list[Any], wrong: list[str]) -> None:
    one, other = lake(tmp_path / "one", ("a", 1, 1e9), ("b", 2, 0.5)), lake(tmp_path / "other", *rows)
    assert differing(one, other, [TABLE]) == wrong


@pytest.mark.parametrize(("number", "wrong"), [("0.07", []), ("0.08", ["gold_numbers (1 rows)"])])
def test_decimals_of_another_precision_are_compared_by_value(tmp_path: Path, number: str, wrong: list[str]) -> None:
    lakes = []
    for name, precision, value in (("one", 31, "0.07"), ("other", 38, number)):
        made = Lake(str(tmp_path / name))
        values = pa.array([Decimal(value), None], pa.decimal128(precision, 2))
        write_deltalake(made.path(TABLE.name), pa.table({"k": ["a", "b"], "n": values}))
        releases.publish(
            made, after=None, hour=None, run_id="r", strategy="full", contents=releases.Contents({TABLE.name: 0})
        )
        lakes.append(made)
    assert differing(*lakes, [TABLE]) == wrong


def test_views_of_another_engine_are_apart_from_its_total() -> None:
    at = datetime(2025, 11, 30, tzinfo=UTC)
    steps = {
        phase: [EventRow.of({"started_at": at, "seconds": seconds, "cpu_seconds": None, "rows_out": None})]
        for phase, seconds in (("push", 1.0), ("compute", 2.0))
    }
    where = (30, 1.0, 1, "feldera", FIRST_HOUR, 1, True)
    taken = Taken(3.5, 1.2, views_seconds=9.0)
    found = {m.phase: m.seconds for m in runner.phase_measures(where, taken, steps, Counter())}
    assert (found["push"], found["compute"], found["other"]) == (1.0, 2.0, 0.5)
    assert (found["total"], found["views"]) == (3.5, 9.0)


def test_lakes_at_different_hours_are_not_compared_as_equal(tmp_path: Path) -> None:
    one, other = lake(tmp_path / "one", ("a", 1, 1.0)), lake(tmp_path / "other", ("a", 1, 1.0))
    before = releases.latest(other)
    releases.publish(
        other,
        after=before,
        hour="2025-11-30T00",
        run_id="r",
        strategy="full",
        contents=releases.Contents({TABLE.name: 0}),
    )
    assert differing(one, other, [TABLE]) == ["the hour: None and 2025-11-30T00"]


@pytest.mark.parametrize(
    "changed",
    [{"strategies": ("full",)}, {"strategies": ("full", "magic")}, {"hours": 0}, {"days": (0,)}, {"changes": (-1,)}],
)
def test_a_plan_that_compares_nothing_is_refused(changed: Any) -> None:
    with pytest.raises(UsageError):
        replace(Plan(("full", "incremental"), (90,)), **changed)


def test_sizes_of_history_are_repeated_and_sizes_of_change_measured_once() -> None:
    plan = Plan(("full", "incremental"), (30, 90), changes=(0.1, 1, 10), changes_at=90, repeats=2)
    assert plan.rounds == [
        *((30, 1, 1), (90, 1, 1)),
        *((90, 0.1, 1), (90, 10, 1)),
        *((30, 1, 2), (90, 1, 2)),
    ]
    assert Plan(("full", "incremental"), (30, 90)).at == 30


def test_a_round_that_would_fill_the_disk_is_not_begun(tmp_path: Path) -> None:
    plan = Plan(("full", "incremental"), (30,), hours=7)
    sources.require_room(plan, 1000, tmp_path)
    with pytest.raises(MedallionError, match="GB free, and this round may take 14000000: "):
        sources.require_room(plan, 10**15, tmp_path)


def test_a_loaded_lake_is_used_again_only_by_the_code_that_loaded_it_from_the_same_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []
    monkeypatch.setattr(sources, "generate", lambda *_, **__: None)
    monkeypatch.setattr(sources, "source_with_changes", lambda source, *_: source)
    monkeypatch.setattr(sources, "load_lake", lambda settings: loads.append(settings.lake))
    code = "abc"
    monkeypatch.setattr(sources, "commit", lambda: code)
    plan = Plan(("full", "incremental"), (7,))

    def times(plan: Plan) -> int:
        sources.prepare(plan, Settings(), tmp_path, 7)
        return len(loads)

    assert [times(plan), times(plan), times(replace(plan, hours=2))] == [1, 1, 1]
    assert [times(replace(plan, seed=1)), times(replace(plan, scale=0.1)), times(plan)] == [2, 3, 4]
    code = "def"
    assert times(plan) == 5


@pytest.mark.parametrize(("change", "lines"), [(3, [b"0\n1\n2\n3\n4\n5\n", b"6\n7\n8\n9\n"]), (0.5, [b"0\n", b"2\n"])])
def test_a_larger_change_is_several_hours_in_one_and_a_smaller_one_its_first_part(
    tmp_path: Path, change: float, lines: list[bytes]
) -> None:
    source = tmp_path / "source"
    (source / "snapshot").mkdir(parents=True)
    (source / "cdc" / "orders").mkdir(parents=True)
    for hour in range(5):
        (source / "cdc" / "orders" / f"2025-11-30T0{hour}.json").write_text(f"{2 * hour}\n{2 * hour + 1}\n")
    target = sources.source_with_changes(source, change, 2)
    files = sorted((target / "cdc" / "orders").iterdir())
    assert [file.read_bytes() for file in files] == lines
    assert [file.stem for file in files] == hours_of(change, 2)
    assert hours_of(3, 2) == ["2025-11-30T02", "2025-11-30T05"], "what it changes is not of the future"
    assert hours_of(0.5, 2) == ["2025-11-30T00", "2025-11-30T01"]
    assert (target / "snapshot").is_dir()


def test_the_changes_of_the_catalogue_can_be_left_out(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "snapshot").mkdir(parents=True)
    for feed in registry().feeds:
        (source / "cdc" / feed.topic).mkdir(parents=True)
        (source / "cdc" / feed.topic / f"{FIRST_HOUR}.json").write_text("a line\n")
    left = sources.source_with_changes(source, 1, 1, catalogue=False)
    assert sorted(folder.name for folder in (left / "cdc").iterdir()) == [
        *("clickstream_events", "inventory_events", "order_items", "orders")
    ]
    assert (left / "cdc" / "orders" / f"{FIRST_HOUR}.json").read_text() == "a line\n"


def test_a_comparison_that_was_stopped_goes_on_with_the_rounds_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[tuple[int, int]] = []
    fails = (7, 2)

    def hours(_plan: Plan, _drivers: Any, days: int, change: float, repeat: int) -> Iterator[Measure]:
        rounds.append((days, repeat))
        yield Measure(days, change, repeat, "full", FIRST_HOUR, 1, True, "total", 1.0)
        if (days, repeat) == fails:
            raise MedallionError("stopped")

    for name in ("generate", "load_lake", "source_with_changes"):
        monkeypatch.setattr(sources, name, lambda *_, **__: tmp_path)
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(runner, "Drivers", lambda *_: nullcontext({}))
    monkeypatch.setattr(runner, "run_hours", hours)
    plan = Plan(("full", "incremental"), (7, 30), repeats=2)

    def run(plan: Plan, *, resume: bool) -> dict[str, Any]:
        return runner.run(plan, Settings(), tmp_path / "work", tmp_path / "out", lambda *_: None, resume)

    with pytest.raises(MedallionError, match="stopped"):
        run(plan, resume=False)
    assert rounds == [(7, 1), (30, 1), (7, 2)], "all sizes once before any is repeated"
    fails = (0, 0)
    result = run(plan, resume=True)
    assert rounds[3:] == [(7, 2), (30, 2)]
    assert [(m["days"], m["repeat"]) for m in result["measures"]] == [(7, 1), (30, 1), (7, 2), (30, 2)]
    with pytest.raises(UsageError, match="another plan"):
        run(replace(plan, hours=1), resume=True)
    run(replace(plan, days=(7, 30, 90), changes=(10,), changes_at=30), resume=True)
    assert rounds[5:] == [(90, 1), (30, 1), (90, 2)], "a report may grow"


def test_results_are_read_as_they_were_written_with_the_measures_as_parquet(tmp_path: Path) -> None:
    result = measured()
    result["measures"][0]["jobs"] = None
    write_results(tmp_path, result)
    assert pq.read_table(tmp_path / "measures.parquet").num_rows == len(result["measures"])
    assert "measures" not in json.loads((tmp_path / "measures.json").read_text())
    read = read_results(tmp_path)
    assert read is not None and render(read) == render(result)
    assert read_results(tmp_path / "nowhere") is None


def test_jobs_files_and_seconds_are_those_of_the_phase_in_which_they_were(tmp_path: Path) -> None:
    at = datetime(2025, 11, 30, tzinfo=UTC)
    steps = {"silver": [EventRow.of({"started_at": at, "seconds": 2.0, "cpu_seconds": 3.0, "rows_out": 7})]}
    for file in ("silver/t/a.parquet", "silver/t/_delta_log/0.json", "silver/t/_delta_log/0.checkpoint.parquet"):
        Path(tmp_path, file).parent.mkdir(parents=True, exist_ok=True)
        Path(tmp_path, file).write_bytes(b"four")
    Path(tmp_path, "ops").mkdir()
    Path(tmp_path, "ops/b.parquet").write_bytes(b"more of it")
    jobs = [at.timestamp() + after for after in (0.0, 1.9, 2.1)]
    where = (30, 1.0, 1, "full", FIRST_HOUR, 1, False)
    grown = runner.footprint(Lake(str(tmp_path)))
    found = {m.phase: m for m in runner.phase_measures(where, Taken(5.0, 6.0, jobs), steps, grown)}
    assert set(found) == {*PHASES, "total"}

    def told(phase: str) -> tuple[Any, ...]:
        m = found[phase]
        return m.seconds, m.cpu_seconds, m.rows_out, m.files, m.commits, m.bytes_out, m.jobs

    assert told("silver") == (2.0, 3.0, 7, 1, 1, 4, 2)
    assert told("gold") == (0, None, None, 0, 0, 0, 0)
    assert told("other") == (3.0, None, None, 1, 0, 10, 1)
    assert told("total") == (5.0, 6.0, None, 2, 1, 14, 3)
    unknown = {m.phase: m.jobs for m in runner.phase_measures(where, Taken(5.0, None), steps, grown)}
    assert set(unknown.values()) == {None}


@pytest.mark.parametrize("table", [t for t in registry() if isinstance(t, Table)], ids=lambda t: t.name)
def test_every_query_is_understood_by_duckdb(table: Table) -> None:
    import duckdb

    assert duckdb.extract_statements(translated(table))[0].type == duckdb.StatementType.SELECT


def measured(*sizes: tuple[int, float]) -> dict[str, Any]:
    """Results as of a run with these sizes of history and change: full takes a tenth of a second a day, incremental 5
    seconds for the usual change."""
    sizes = sizes or ((30, 1), (90, 1))
    rows = []
    for size, change in sizes:
        for strategy, seconds in (("full", size / 10), ("incremental", 5.0 * change)):
            for number in (1, 2, 3, 4):
                common = {
                    "days": size,
                    "change": float(change),
                    "repeat": 1,
                    "strategy": strategy,
                    "hour": f"2025-11-30T0{number}",
                }
                common |= {"number": number, "warm": number > 3, "rows_out": 1_000, "files": 5, "commits": 6}
                common |= {"cpu_seconds": 36.0, "bytes_out": 7_000_000, "bytes_read": 21_000_000}
                rows += [
                    common | {"phase": phase, "seconds": seconds if phase in {"silver", "total"} else 0.0}
                    for phase in (*PHASES, "total")
                ]
    plan = {"strategies": ["full", "incremental"], "hours": 1, "warm_up": 3}
    plan |= {"repeats": 1, "scale": 1.0, "seed": 0, "catalogue": True}
    sessions = {f"{size} {change:g} {strategy}": 4.2 for size, change in sizes for strategy in plan["strategies"]}
    known = {
        "machine": {"memory": "<24> GiB"},
        "rounds": [{"days": 30, "change": 1.0, "commit": "abc", "load": "0.50"}],
        "kept_bytes": {"30": 1, "90": 2e6},
        "session_seconds": sessions,
    }
    return {"plan": plan, **known, "measures": rows}


def test_bytes_are_told_by_changed_row_of_bronze() -> None:
    table = bytes_table(measured((30, 1)))
    assert table.rows == [
        ("30 d", "x1", name, "1,000", "21.0", "7.0", "21.0", "7.0") for name in ("full", "incremental")
    ]
    unknown = measured((30, 1))
    for measure in unknown["measures"]:
        measure["bytes_read"] = None
    assert bytes_table(unknown).rows == []


def test_a_choice_is_right_unless_the_other_way_took_less_in_the_median() -> None:
    upsert, full = RefreshMethod.UPSERT, RefreshMethod.FULL_RECOMPUTE
    choices = judge(
        [
            *(Refresh("incremental", "well", upsert, seconds) for seconds in (1.0, 9.0, 1.0)),
            *(Refresh("full", "well", full, seconds) for seconds in (2.0, 2.0, 0.1)),
            *(Refresh("incremental", "badly", full, 2.0) for _ in range(2)),
            Refresh("always", "badly", upsert, 1.0),
            Refresh("incremental", "nearly", upsert, 1.09),
            Refresh("full", "nearly", full, 1.0),
            Refresh("incremental", "nothing new", RefreshMethod.UNCHANGED, 1.0),
            Refresh("full", "nothing new", full, 0.1),
            Refresh("incremental", "only in full", full, 1.0),
            Refresh("always", "only in full", full, 0.1),
        ]
    )
    assert (choices.right, choices.made) == (4, 6)
    assert choices.wrong == {"badly, full recompute": (2.0, 1.0)}
    told = choices_table({"choices": {"90 1 1": choices.as_values()}}).rows
    assert told == [("90 d", "x1", "6", "67%", "badly, full recompute: 2.00 s, not 1.00")]


def test_the_page_gives_the_answer_and_where_it_turns() -> None:
    page = render(measured())
    text = re.sub(r"<[^>]+>", "", page)
    assert (
        "With 90 days of history, refreshing Silver and Gold takes 5.0 s incrementally, and 1.8 times as long" in text
    )
    assert "Full is faster than incremental at 30 days of history; they meet at about 50," in text
    assert "full3.09.03.00incremental5.05.01.00" in text, "seconds at 30 and at 90 days, and how they grow"
    assert "7.3" in text, "730 hours of 36 CPU seconds"


def test_the_page_tells_from_which_change_on_full_is_faster() -> None:
    text = re.sub(r"<[^>]+>", "", render(measured((30, 1), (90, 1), (90, 0.1), (90, 10))))
    assert "Against times the usual change, with 90 days of history" in text
    assert "Against times the usual change, with 30 days of history" not in text, "which has had no other"
    assert "Full is faster than incremental at 10 times the usual change; they meet at about 1.8," in text


def test_the_page_tells_the_changes_of_each_history_apart() -> None:
    text = re.sub(r"<[^>]+>", "", render(measured((30, 1), (30, 10), (90, 1), (90, 0.5), (90, 10))))
    at_30, at_90 = text.split("Against times the usual change")[1:]
    assert "with 30 days" in at_30 and "Full is faster than incremental at 1, 10 times the usual change." in at_30
    assert "with 90 days" in at_90 and "Full is faster than incremental at 10 times" in at_90


def test_what_lies_within_the_spread_of_rounds_is_no_crossover() -> None:
    curves = {"full": [9.0, 10.0, 14.5], "incremental": [5.0, 6.0, 14.8]}
    told = crossover([1, 10, 100], curves, "times the usual change")
    assert told == "Full and incremental are as fast as each other, within 5 %, at 100 times the usual change."


def test_the_page_tells_what_each_phase_takes() -> None:
    result = measured((30, 1))
    for m in result["measures"]:
        if m["phase"] == "silver" and m["seconds"]:
            m |= {"jobs": 12} if m["strategy"] == "full" else {"cpu_seconds": None}
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", render(result).partition("By phase")[2])
    assert cells[:10] == ["30 d", "x1", "full", "silver", "3.00", "36.00", "7.00", "5", "6", "12"]
    assert cells[10:20] == ["30 d", "x1", "incremental", "silver", "5.00", "", "7.00", "5", "6", ""]


def test_runs_of_the_dag_stand_beside_their_targets() -> None:
    kinds = [("warm Spark", "full"), ("warm Spark", "incremental"), ("a JVM per task", "full")]
    runs = [
        {"spark": spark, "strategy": strategy, "released": seconds, "waits": [1.0, 3.0, 1.0]}
        for (spark, strategy), seconds in zip(kinds, (40.0, 20.0, 90.0), strict=True)
    ]
    assert target_rows({"runs": runs, "first": {"warm Spark": 60.0}}) == [
        ("incremental, warm Spark, trigger to release, s", 20.0, 18.0),
        ("full, a JVM per task, trigger to release, s", 90.0, 70.0),
        ("first incremental / full, warm Spark", 1.5, 1.15),
        ("wait between two tasks, s", 1.0, 2.0),
    ]


def test_the_page_tells_how_much_of_a_run_of_the_dag_is_refreshing() -> None:
    def run(spark: str, queue: float) -> dict[str, Any]:
        phases = {"queue": queue, "start": 2.0, "session": 1.0, "land": 1.0, "silver": 9.0}
        return {"spark": spark, "strategy": "full", "seconds": sum(phases.values()), "phases": phases}

    told = {"days": 90, "warm_up": 1, "commit": "abc", "machine": {"processor": "<8 cores>", "memory": "64 GiB"}}
    page = render(None, told | {"runs": [run("warm", q) for q in (1.0, 2.0, 3.0)]})
    assert "at abc, on &lt;8 cores&gt; and 64 GiB" in page
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page)
    assert cells[:6] == ["full", "warm", "3", "15.0", "10.0", "1.5"]


def test_the_page_stands_alone_and_escapes_what_it_is_given() -> None:
    page = render(measured((30, 1)))
    assert "&lt;24&gt; GiB" in page
    assert not re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"", page), "something is fetched"
