"""A check judges every promise, stays shut when in doubt, and leaves a report that people can read."""

import json
import re
import string
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion.checks import report_store
from medallion.checks.by_change import UNCHANGED
from medallion.checks.checkpoint import CheckedLayer, run_checkpoint
from medallion.checks.context import CheckContext
from medallion.checks.docs_queue import build_data_docs
from medallion.checks.report_page import render, render_index, summarize
from medallion.checks.result import CheckResult, ExpectationResult, TableResult, slug
from medallion.expect.vocabulary import (
    Expectation,
    at_least,
    between,
    in_set,
    no_rows,
    not_empty,
    not_null,
    refers_to,
    unique,
)
from medallion.storage.duckdb_views import TableAt, open_views

ROOT = Path(__file__).parents[2]
RUN = "manual__2025-11-30T00:00:00+00:00"
SHOP = pa.table(
    {"id": [1, 2, 2, None, None], "tier": ["gold", "lead", "gold", None, "gold"], "paid": [5, -1, 7, None, 101]}
)
Suites = Mapping[str, Sequence[Expectation]]


class Lake:
    """Small Delta tables, and checks of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reports = root / "reports"
        self.tables: dict[str, TableAt] = {}

    def write(self, name: str, rows: pa.Table, **options: Any) -> None:
        write_deltalake(str(self.root / name), rows, **options)
        self.tables[name] = TableAt(self.root / name)

    def check(self, suites: Suites, **names: Any) -> CheckResult:
        about = {"hour": "2025-11-30T00", "run_id": RUN, **names}
        checked = CheckedLayer(
            "silver", **{name: about.pop(name) for name in ("hour", "run_id", "attempt") if name in about}
        )
        context = CheckContext(**about)
        return run_checkpoint(checked, self.tables, suites=suites, reports=self.reports, context=context)

    def judge(self, *expectations: Expectation) -> list[ExpectationResult]:
        """What is said of ``expectations`` on the table called shop."""
        return list(self.check({"shop": expectations}).tables[0].expectations)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.write("shop", SHOP)
    lake.write("tiers", pa.table({"tier": ["gold", "silver"]}))
    return lake


# -- what is judged


BROKEN: list[tuple[Expectation, str, list[dict[str, str | None]]]] = [
    (
        not_null("id"),
        "2 of 5 rows",
        [{"id": None, "tier": None, "paid": None}, {"id": None, "tier": "gold", "paid": "101"}],
    ),
    (in_set("tier", ("gold", "silver")), "1 of 5 rows", [{"tier": "lead", "id": "2", "paid": "-1"}]),
    (at_least("paid", 0), "1 of 5 rows", [{"paid": "-1", "id": "2", "tier": "lead"}]),
    (between("paid", -1, 100), "1 of 5 rows", [{"paid": "101", "id": None, "tier": "gold"}]),
    (unique("id"), "4 of 5 rows (2 values of id)", [{"id": "2", "copies": "2"}, {"id": None, "copies": "2"}]),
    (unique("tier", "paid"), "its query found nothing", []),
    (
        no_rows("SELECT id FROM {batch} WHERE paid > 100", "nobody paid more than 100"),
        "its query found 1 row",
        [{"id": None}],
    ),
    (refers_to("tier", "tiers"), "1 of 5 rows (1 value of tier)", [{"tier": "lead", "rows_with_it": "1"}]),
    (not_empty(), "5 rows", []),
]


def test_every_word_finds_the_rows_that_break_it(shop: Lake) -> None:
    told = shop.judge(*(expectation for expectation, _, _ in BROKEN))

    for result, (expectation, observed, examples) in zip(told, BROKEN, strict=True):
        assert result.error is None, expectation.meaning
        assert result.success is not bool(examples), expectation.meaning
        assert result.observed == observed, expectation.meaning
        assert sorted(map(str, result.examples)) == sorted(map(str, examples)), expectation.meaning


def test_a_column_may_have_a_name_that_sql_reserves(lake: Lake) -> None:
    lake.write("shop", pa.table({"order": ["a", "a", "c"], "group": [1, 2, -3]}))
    lake.write("orders", pa.table({"order": ["a"], "end": ["c"]}))

    told = lake.judge(
        *(unique("order"), unique("order", "group"), not_null("order"), in_set("order", ("a",)), at_least("group", 0)),
        *(refers_to("order", "orders"), refers_to("order", "orders", "end", allowed_percent=90)),
        *(at_least("group", 0, allowed_percent=50), in_set("order", ("a",), allowed_percent=20)),
    )

    assert [result.error for result in told] == [None] * len(told)
    assert [result.success for result in told] == [False, True, True, False, False, False, True, True, False]
    assert told[5].examples == ({"order": "c", "rows_with_it": "1"},)


def test_a_green_check_says_what_it_looked_at(lake: Lake) -> None:
    lake.write("shop", pa.table({"id": [1, 2, 3]}))

    result = lake.check({"shop": [unique("id"), not_null("id"), at_least("id", 1), not_empty()]})

    assert result.status == "succeeded"
    assert [line.observed for line in result.tables[0].expectations] == [
        "its query found nothing", "0 of 3 rows", "0 of 3 rows", "3 rows",
    ]  # fmt: skip
    assert (result.tables[0].rows, result.versions) == (3, {"shop": 0})
    assert result.summary() == "silver check: all 4 expectations on 1 table passed"
    page = result.to_dict()
    assert "4 expectations: whole table; by DuckDB" in render(page)
    for line in page["tables"][0]["expectations"][1:]:
        line["looked_at"] = UNCHANGED
    assert "3 expectations: none, as no row changed; 1 expectation: whole table; by DuckDB" in render(page)


def test_an_empty_table_breaks_only_the_promise_of_rows(lake: Lake) -> None:
    lake.write("shop", SHOP.slice(0, 0))

    told = lake.judge(unique("id"), not_null("id"), in_set("tier", ("gold",)), at_least("paid", 0), not_empty())

    assert [line.success for line in told] == [True, True, True, True, False]


def test_a_column_of_nulls_breaks_only_the_promise_of_values(lake: Lake) -> None:
    lake.write("shop", pa.table({"paid": pa.array([None, None], pa.int64())}))

    told = lake.judge(not_null("paid"), at_least("paid", 0), in_set("paid", ("1",)), unique("paid"))

    assert [line.success for line in told] == [False, True, True, False]


def test_null_key_forms_a_group(lake: Lake) -> None:
    lake.write("shop", pa.table({"week": [1, 1, 2], "category": ["toys", None, None]}))

    assert lake.judge(unique("week", "category"))[0].success


TOLERANT: list[Callable[..., Expectation]] = [
    partial(not_null, "note"),
    partial(in_set, "tier", ("gold",)),
    partial(at_least, "paid", 0),
    partial(between, "paid", 0, 9),
    partial(refers_to, "tier", "tiers"),
]


@pytest.mark.parametrize("word", TOLERANT, ids=lambda word: word.func.__name__)
def test_a_few_rows_may_break_a_promise_where_that_is_said(lake: Lake, word: Callable[..., Expectation]) -> None:
    rows = {"tier": ["gold"] * 19 + ["lead"], "paid": [5] * 19 + [-1], "note": ["fine"] * 19 + [None]}
    lake.write("shop", pa.table(rows))
    lake.write("tiers", pa.table({"tier": ["gold"]}))

    told = lake.judge(word(allowed_percent=5), word(allowed_percent=4), word())

    assert [line.success for line in told] == [True, False, False]
    assert told[0].meaning == f"{told[2].meaning}, tolerance 5 %"


def test_the_version_asked_for_is_judged_not_the_newest(lake: Lake) -> None:
    lake.write("shop", pa.table({"id": [1]}))
    lake.write("shop", pa.table({"id": [-1]}), mode="append")
    lake.tables["shop"] = TableAt(lake.tables["shop"].folder, version=0)

    result = lake.check({"shop": [at_least("id", 0)]})

    assert (result.status, result.versions) == ("succeeded", {"shop": 0})


def test_braces_and_colons_in_a_query_are_taken_literally(lake: Lake) -> None:
    lake.write("shop", pa.table({"note": ["{}", ":id", "fine"]}))

    (told,) = lake.judge(no_rows("SELECT note FROM {batch} WHERE note IN ('{{}}', ':id')", "no odd notes"))

    assert {example["note"] for example in told.examples} == {"{}", ":id"}


def test_paths_with_spaces_and_equals_signs_are_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "a lake" / "region=eu")
    lake.write("shop", pa.table({"id": [1]}))

    assert lake.judge(not_null("id"))[0].success
    assert lake.judge(not_null("region"))[0].error


# -- severity


@pytest.mark.parametrize(
    ("severities", "status"),
    [(["warning"], "warned"), (["critical"], "failed"), (["warning", "critical"], "failed")],
)
def test_a_critical_promise_fails_the_check_and_a_warning_does_not(
    shop: Lake, severities: list[Any], status: str
) -> None:
    result = shop.check({"shop": [not_null("id", severity=severity) for severity in severities]})

    assert result.status == result.tables[0].status == status


def test_the_summary_names_what_is_worst_first(shop: Lake) -> None:
    result = shop.check({"shop": [not_null("id", severity="warning"), at_least("paid", 0)]})

    assert result.summary() == "silver check failed: shop: paid is at least 0: 1 of 5 rows, and 1 warned"


def test_log_names_each_failed_expectation_with_some_rows(shop: Lake) -> None:
    details = shop.check({"shop": [not_null("id", severity="warning"), at_least("paid", 0)]}).details()

    assert details[0] == "failed  shop: paid is at least 0: 1 of 5 rows"
    assert details[1] == "  such as paid -1, id 2, tier lead"
    assert [line for line in details if line.startswith("warned  shop: id is never null")]


# -- when in doubt, shut


NO_VERDICT: list[tuple[Expectation, str]] = [
    (not_null("nothing"), '"nothing"'),
    (no_rows("SELECT nothing FROM {batch}", "never runs"), '"nothing"'),
    (no_rows("SELECT FROM WHERE {batch}", "is not SQL"), "syntax error"),
    (no_rows("SELECT } FROM {batch}", "has a brace too many"), "query cannot be read"),
    (no_rows("SELECT * FROM {batch} JOIN {nowhere} USING (id)", "names no table"), "nowhere is not among the tables"),
    (Expectation("ExpectMiracles", {}, "is no kind"), "ExpectMiracles"),
    (Expectation("ExpectColumnValuesToBeBetween", {"column": "id", "bound": 1}, "has no such argument"), "bound"),
    (Expectation("ExpectColumnValuesToBeInSet", {"column": "id", "value_set": ["x"]}, "compares apples"), "INT64"),
]


@pytest.mark.parametrize(("expectation", "why"), NO_VERDICT, ids=[expectation.meaning for expectation, _ in NO_VERDICT])
def test_a_promise_without_a_verdict_fails_even_as_a_warning(shop: Lake, expectation: Expectation, why: str) -> None:
    doubtful = Expectation(expectation.kind, expectation.arguments, expectation.meaning, "warning")

    result = shop.check({"shop": [doubtful], "tiers": [not_null("tier")]})

    assert result.status == "failed"
    (told,) = result.tables[0].expectations
    assert told.observed == "no verdict"
    assert told.error
    assert why in told.error
    assert "\n" not in told.error
    assert result.tables[1].status == "succeeded"


def unreadable(lake: Lake) -> None:
    lake.tables["shop"] = TableAt(lake.root / "nowhere")


def without_its_files(lake: Lake) -> None:
    for file in (lake.root / "shop").glob("*.parquet"):
        file.unlink()


def switch_on(lake: Lake, feature: str, *actions: dict[str, Any]) -> None:
    """Commit ``actions`` on the table called shop, and that its readers have to know ``feature``."""
    features = {"readerFeatures": [feature], "writerFeatures": [feature]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    commit = lake.root / "shop/_delta_log/00000000000000000001.json"
    commit.write_text("\n".join(json.dumps(action) for action in (protocol, *actions)))


def with_a_feature_that_no_reader_here_knows(lake: Lake) -> None:
    switch_on(lake, "unheardOf")


def partitioned(lake: Lake) -> None:
    lake.write("shop", SHOP, mode="overwrite", partition_by=["tier"], schema_mode="overwrite")


@pytest.mark.parametrize(
    "spoil", [unreadable, without_its_files, with_a_feature_that_no_reader_here_knows, partitioned]
)
def test_a_table_that_cannot_be_read_whole_fails(shop: Lake, spoil: Callable[[Lake], None]) -> None:
    spoil(shop)

    result = shop.check({"shop": [not_empty(severity="warning")]})

    assert result.status == "failed"
    assert str(result.tables[0].expectations[0].error).startswith("shop at ")
    assert result.tables[0].rows is None


def deletion_vector(*deleted: int) -> dict[str, Any]:
    """A deletion vector inside the log itself: these positions of a file, as a Roaring bitmap in Z85."""
    container = struct.pack(f"<IIHHI{len(deleted)}H", 12346, 1, 0, len(deleted) - 1, 16, *deleted)
    vector = struct.pack("<IQI", 1681511377, 1, 0) + container
    digits = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
    words = struct.unpack(f">{len(vector) // 4}I", vector)
    text = "".join(digits[word // 85**place % 85] for word in words for place in (4, 3, 2, 1, 0))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(vector), "cardinality": len(deleted)}


def test_rows_that_a_deletion_vector_deletes_are_neither_judged_nor_counted(shop: Lake) -> None:
    first = (shop.root / "shop/_delta_log/00000000000000000000.json").read_text()
    (add,) = (action["add"] for action in map(json.loads, first.splitlines()) if "add" in action)
    gone = {"path": add["path"], "deletionTimestamp": 0, "dataChange": True}
    without = {**add, "deletionVector": deletion_vector(1, 4)}  # the row of -1 and the one of 101
    switch_on(shop, "deletionVectors", {"remove": gone}, {"add": without})

    (table,) = shop.check({"shop": [unique("id"), between("paid", 0, 100), not_null("id"), not_empty()]}).tables

    assert table.rows == 3
    assert [line.success for line in table.expectations] == [True, True, False, True]
    assert [line.observed for line in table.expectations][2:] == ["1 of 3 rows", "3 rows"]
    with open_views({"shop": shop.tables["shop"]}) as views:
        assert views.sample("SELECT id, paid FROM shop ORDER BY id", 9) == [
            {"id": 1, "paid": 5},
            {"id": 2, "paid": 7},
            {"id": None, "paid": None},
        ]


def test_an_engine_that_breaks_down_fails_the_check_and_leaves_a_report(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medallion.checks import validation

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no disk left\nat all")

    monkeypatch.setattr(validation, "validate", broken)

    result = shop.check({"shop": [not_null("id"), not_empty(severity="warning")]})

    assert [line.error for line in result.tables[0].expectations] == ["Great Expectations broke down: no disk left"] * 2
    assert result.status == "failed"
    assert "no disk left" in (shop.reports / result.page).read_text()


def test_data_docs_that_cannot_be_built_say_why_and_are_built_once_they_can(shop: Lake) -> None:
    (shop.reports / "gx").mkdir(parents=True)
    (shop.reports / "gx/site").write_text("a file in the way")

    assert shop.check({"shop": [not_empty()]}).status == "succeeded"

    assert build_data_docs(shop.reports)
    (shop.reports / "gx/site").unlink()
    assert build_data_docs(shop.reports) is None
    assert list((shop.reports / "gx/site/validations").rglob("*.html"))


# -- reports


def test_a_check_leaves_a_page_its_json_an_index_and_data_docs(shop: Lake) -> None:
    result = shop.check({"shop": [not_null("id"), not_empty()]}, attempt=2)

    page = shop.reports / result.page
    assert page.parent.name == "2025-11-30T00"
    assert page.name.startswith("silver-manual__2025-11-30T00-00-00-00-00-")
    assert page.name.endswith("-2.html")
    assert json.loads(page.with_suffix(".json").read_text()) == json.loads(json.dumps(result.to_dict()))
    lead = "Of 2 expectations on 1 table, 1 failed."
    for text in (RUN, "attempt 2", "2025-11-30T00", "id is never null", "2 of 5 rows", "shop 0", lead):
        assert text in page.read_text()
    assert f'href="{result.page}"' in (shop.reports / "index.html").read_text()
    assert not (shop.reports / "gx/site").exists(), "Data Docs are built later"
    assert build_data_docs(shop.reports) is None
    assert not list((shop.reports / "gx/waiting").iterdir())
    docs = [str(file.relative_to(shop.reports)) for file in (shop.reports / "gx/site").rglob("*.html")]
    assert any("shop verdicts" in name and "2025-11-30T00 silver manual__2025" in name for name in docs)
    assert any("shop details" in name for name in docs)


def test_data_docs_say_how_an_expectation_passed(shop: Lake) -> None:
    shop.check({"shop": [not_empty(), at_least("id", -100)]})
    assert build_data_docs(shop.reports) is None
    (page,) = (shop.reports / "gx/site/validations/shop verdicts").rglob("*.html")
    assert page.read_text().count("passed, no failed records") == 2
    assert ">--<" not in "".join(page.read_text().split())


def test_beside_an_expectation_stands_how_it_fared_in_the_last_checks(lake: Lake) -> None:
    for attempt, ids in enumerate(([1, 2], [1, None], [1, 3]), start=1):
        lake.write("shop", pa.table({"id": ids}), mode="overwrite")
        result = lake.check({"shop": [not_null("id")]}, attempt=attempt)
    page = (lake.reports / result.page).read_text()
    marks = re.findall(r'<i class="(\w+)" title="([^"]*)">', page)
    assert [status for status, _ in marks] == ["succeeded", "failed", "succeeded"], "oldest first"
    assert "1 of 2 rows" in marks[1][1]


def test_data_stays_data_on_every_page(lake: Lake) -> None:
    evil = "<script>alert('shop')</script>"
    lake.write("shop", pa.table({"tier": [evil]}))

    result = lake.check({"shop": [in_set("tier", ("gold",)), no_rows("SELECT * FROM {batch}", "it is empty")]})

    assert result.tables[0].expectations[0].examples == ({"tier": evil},)
    assert build_data_docs(lake.reports) is None
    pages = [file.read_text() for file in lake.reports.rglob("*.html")]
    assert not [page for page in pages if evil in page]
    assert [page for page in pages if "&lt;script&gt;alert(" in page]


def test_names_and_errors_are_escaped_too() -> None:
    line = ExpectationResult("<b>", "<b>", "critical", False, "<b>", query="SELECT '<b>'", error="<b>")
    result = CheckResult(
        "<b>", "<b>", "<b>", 1, datetime(2025, 11, 30, tzinfo=UTC), 1, 0, {"<b>": 1},
        (TableResult("<b>", 1, 1, 0, (line,)),),
    ).to_dict()  # fmt: skip

    assert "<b>" not in render(result)
    assert "<b>" not in render_index([summarize(result)])


def test_examples_are_few_and_short(lake: Lake) -> None:
    lake.write("shop", pa.table({f"c{n}": ["x" * 500] * 50 for n in range(20)}))

    for told in lake.judge(in_set("c19", ("y",)), no_rows("SELECT * FROM {batch}", "it is empty")):
        assert len(told.examples) == 5
        assert len(told.examples[0]) == 8
        assert {len(str(value)) for value in told.examples[0].values()} == {120}


def test_money_is_shown_to_the_last_digit(lake: Lake) -> None:
    lake.write("shop", pa.table({"paid": pa.array([Decimal("-12345678901234567890.10")], pa.decimal128(38, 2))}))

    result = lake.check({"shop": [at_least("paid", 0)]})

    assert result.tables[0].expectations[0].examples == ({"paid": "-12345678901234567890.10"},)
    assert build_data_docs(lake.reports) is None
    (details,) = (lake.reports / "gx/site/validations/shop details").rglob("*.html")
    assert "-12345678901234567890.10" in details.read_text()


def test_pages_need_nothing_from_the_network(shop: Lake) -> None:
    result = shop.check({"shop": [not_null("id")]})

    assert build_data_docs(shop.reports) is None
    for page in (shop.reports / result.page, shop.reports / "index.html"):
        assert "//" not in page.read_text().replace("<!doctype", "")
    for docs in (shop.reports / "gx/site").rglob("*.html"):
        assert not re.findall(r"<script[^>]*src|<(?:link|img)[^>]*https?:|url[(]'?https?:", docs.read_text()), docs
        assert "font-family" in docs.read_text() or "font:" in docs.read_text()


def test_different_runs_never_share_a_page() -> None:
    runs = ["a/b", "a:b", "a-b", slug("a/b"), "..", "a" * 300, "a" * 301, "ü"]

    assert len({slug(run) for run in runs}) == len(runs)
    assert all(len(slug(run)) <= 91 and set(slug(run)) <= set("ab.-0123456789cdef") for run in runs)


def test_the_index_lists_the_newest_checks_and_no_more(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_store, "LISTED", 2)
    lake.write("shop", pa.table({"id": [1]}))

    pages = [lake.check({}, hour=f"2025-11-30T0{hour}").page for hour in (2, 0, 1)]

    index = (lake.reports / "index.html").read_text()
    assert index.index(pages[2]) < index.index(pages[1])
    assert pages[0] not in index


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: "{",
        lambda _: "[]",
        lambda line: {**line, "statuses": None},
        lambda line: {name: value for name, value in line.items() if name != "attempt"},
        lambda _: 1,
    ],
)
def test_the_index_is_the_same_whatever_became_of_what_it_remembers(lake: Lake, damage: Callable[[Any], Any]) -> None:
    lake.write("shop", pa.table({"id": [1]}))
    lake.check({"shop": [not_empty()]})
    whole, remembered = (lake.reports / "index.html").read_text(), lake.reports / "index.json"
    ((name, line),) = json.loads(remembered.read_text()).items()

    damaged = damage(line)
    remembered.write_text(damaged if isinstance(damaged, str) else json.dumps({name: damaged}))
    report_store.write_index(lake.reports)

    assert (lake.reports / "index.html").read_text() == whole


def test_the_index_notices_a_result_that_was_written_by_another_check_or_again(lake: Lake) -> None:
    lake.write("shop", pa.table({"id": [None]}, pa.schema([("id", pa.int64())])))
    result = lake.check({"shop": [not_empty()]})
    written = (lake.reports / result.page).with_suffix(".json")
    beside = written.with_name("silver-beside-1.json")
    beside.write_text(written.read_text().replace(result.page, "2025-11-30T00/silver-beside-1.html"))
    lake.check({"shop": [not_null("id")]})  # under the same names

    report_store.write_index(lake.reports)

    index = (lake.reports / "index.html").read_text()
    assert "silver-beside-1.html" in index
    assert "1 failed of 1" in index


def test_a_check_reads_no_other_results_but_those_it_shows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.write("shop", pa.table({"id": [1]}))
    for hour in range(3):
        lake.check({"shop": [not_empty()]}, hour=f"2025-11-30T0{hour}")
    read: list[str] = []
    monkeypatch.setattr(report_store, "TREND", 1)
    monkeypatch.setattr(
        report_store, "_read", lambda file, read_it=report_store._read: read.append(file) or read_it(file)
    )

    lake.check({"shop": [not_empty()]}, hour="2025-11-30T03")

    assert [file.parent.name for file in read] == ["2025-11-30T03", "2025-11-30T02"]


def test_data_docs_keep_the_newest_results_and_no_more(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from medallion.checks import data_docs

    monkeypatch.setattr(data_docs, "KEPT", 2)
    lake.write("shop", pa.table({"id": [1]}))

    for hour in range(4):
        lake.check({"shop": [not_empty()]}, hour=f"2025-11-30T0{hour}")
        assert build_data_docs(lake.reports) is None

    for kind in ("results", "site/validations"):
        kept = {folder.name.split()[0] for folder in (lake.reports / "gx" / kind).glob("*/*")}
        assert kept == {"2025-11-30T02", "2025-11-30T03"}


def test_a_check_is_silent_on_the_console(shop: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    shop.check({"shop": [not_null("id"), unique("id"), not_null("nothing")]})

    assert capfd.readouterr() == ("", "")


def test_what_commands_and_dags_import_loads_no_engine() -> None:
    code = (
        "import sys, medallion.checks.checkpoint, medallion.checks.suites, medallion.checks.report_store;"
        "print({'great_expectations', 'duckdb', 'deltalake', 'pyarrow', 'sqlalchemy'} & set(sys.modules))"
    )
    assert python(code) == "set()"


@pytest.mark.slow
def test_loading_great_expectations_leaves_out_what_checks_never_use_and_hides_it_from_nobody() -> None:
    code = (
        "import sys; from medallion.checks.lean_imports import lean_imports\n"
        "with lean_imports(): import medallion.checks.validation\n"
        "print('pyspark' in sys.modules, 'scipy.stats._stats_py' in sys.modules)\n"
        "from scipy import stats; import pyspark; print(stats.norm.cdf(0), pyspark.__name__)"
    )
    assert python(code).split() == ["False", "False", "0.5", "pyspark"]


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.strip()


def test_what_failed_is_traced_by_the_key_of_the_table_that_it_refers_to(shop: Lake) -> None:
    asked: list[tuple[Sequence[str], Sequence[Mapping[str, str | None]]]] = []

    def find(tables: Sequence[str], records: Sequence[Mapping[str, str | None]]) -> tuple[str, ...]:
        asked.append((tables, records))
        return ("cdc/tiers/2025-11-30T00.json: line 3 deletes name lead",)

    shop.write("names", pa.table({"name": ["gold"]}))
    result = shop.check({"shop": [refers_to("tier", "names", "name"), not_empty()]}, origins=find)

    ((tables, records),) = asked
    assert tables == ["shop", "names"]
    assert records == [{"name": "lead", "tier": "lead", "rows_with_it": "1"}]
    page = (shop.reports / result.page).read_text()
    assert "<li>cdc/tiers/2025-11-30T00.json: line 3 deletes name lead</li>" in page
    assert "1 of 5 rows (1 value of tier)" in page
