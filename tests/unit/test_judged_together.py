"""An incremental check asks Great Expectations about the expectations of a table together, and loses no verdict."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion.checks import by_change
from medallion.checks.by_change import CHANGED, WHOLE
from medallion.checks.report_store import DATA_DOCS, WAITING
from medallion.checks.together import failed_rows_query, join_expectations
from medallion.expect.vocabulary import Expectation, at_least, between, in_set, no_rows, not_null, unique
from tests.unit.test_check_by_change import Lake, basis_of, even_a_large_share, looked_at, verdicts  # noqa: F401

ROW = {"id": 1, "tier": 1, "paid": 5, "note": "a"}
QUOTED = in_set("note", ("a", "b\\c", "it's", "{}"))


def shop(folder: Path, *expectations: Expectation) -> Lake:
    lake = Lake(folder, {"shop": expectations})
    write_deltalake(lake.at("shop"), pa.Table.from_pylist([ROW]), configuration={"delta.enableChangeDataFeed": "true"})
    return lake


def judged_expectations(lake: Lake) -> list[str]:
    """Return the meaning of each expectation that Great Expectations judged in the last check."""
    (file,) = (lake.root / "reports" / DATA_DOCS / WAITING).glob("*.json")
    suites = [json.loads(content) for _, content in json.loads(file.read_text())]
    return [line["expectation_config"]["description"] for suite in suites for line in suite["results"]]


def test_an_incremental_check_asks_once_about_all_expectations_that_pass(tmp_path: Path) -> None:
    lake = shop(tmp_path, unique("id"), not_null("note"), at_least("paid", 0))
    basis = basis_of(lake.check())
    assert len(judged_expectations(lake)) == 3  # a check of whole tables asks about each
    write_deltalake(lake.at("shop"), pa.Table.from_pylist([ROW | {"id": 2}]), mode="append")

    result = lake.check(basis)

    assert set(looked_at(result).values()) == {CHANGED} and all(ok for ok, _ in verdicts(result).values())
    assert judged_expectations(lake) == [
        "3 expectations: id is unique; note is never null; paid is at least 0",
    ]


def test_one_that_fails_is_named_and_the_others_pass(tmp_path: Path) -> None:
    lake = shop(tmp_path, unique("id"), not_null("note"), at_least("paid", 0))
    basis = basis_of(lake.check())
    write_deltalake(lake.at("shop"), pa.Table.from_pylist([ROW | {"id": 2, "paid": -1}]), mode="append")

    result = lake.check(basis)

    assert {line.meaning: (line.success, line.looked_at) for line in result.tables[0].expectations} == {
        "id is unique": (True, CHANGED),
        "note is never null": (True, CHANGED),
        "paid is at least 0": (False, WHOLE),
    }
    assert result.tables[0].expectations[2].unexpected_count == 1


def test_a_query_that_cannot_run_takes_no_other_with_it(tmp_path: Path) -> None:
    broken = no_rows("SELECT nothing_of_this_name FROM {batch}", "it can be asked")
    lake = shop(tmp_path, unique("id"), not_null("note"), broken)
    basis = basis_of(lake.check())
    write_deltalake(lake.at("shop"), pa.Table.from_pylist([ROW | {"id": 2}]), mode="append")

    assert verdicts(lake.check(basis)) == {
        ("shop", "id is unique"): (True, True),
        ("shop", "note is never null"): (True, True),
        ("shop", "it can be asked"): (False, False),
    }


@pytest.mark.parametrize("note", ["a", "b\\c", "it's", "{}", "b", "it''s", None])
def test_values_that_spark_and_duckdb_write_differently_are_judged_alike(tmp_path: Path, note: str | None) -> None:
    lake = shop(tmp_path, unique("id"), QUOTED)
    basis = basis_of(lake.check())
    write_deltalake(lake.at("shop"), pa.Table.from_pylist([ROW | {"id": 2, "note": note}]), mode="append")

    by_rows, whole = lake.check(basis), lake.check()

    assert verdicts(by_rows) == verdicts(whole)
    assert verdicts(whole)["shop", QUOTED.meaning] == (note in {"a", "b\\c", "it's", "{}", None}, True)


def test_a_closing_brace_alone_is_judged_alike(tmp_path: Path) -> None:
    lake = shop(tmp_path, unique("id"), in_set("note", ("a", "}")))
    basis = basis_of(lake.check())
    write_deltalake(lake.at("shop"), pa.Table.from_pylist([ROW | {"id": 2, "note": "}}"}]), mode="append")

    by_rows, whole = lake.check(basis), lake.check()

    assert verdicts(by_rows) == verdicts(whole)
    assert verdicts(whole)["shop", "note is one of a, }"] == (False, True)


def test_only_what_a_query_decides_is_joined() -> None:
    assert failed_rows_query(at_least("paid", 0), "shop") == "SELECT * FROM shop WHERE NOT (paid >= 0)"
    assert failed_rows_query(between("paid", 0, 9, allowed_percent=5), "shop") is None
    assert failed_rows_query(QUOTED, "shop") is None


def test_a_joined_query_may_end_in_a_comment_or_a_semicolon() -> None:
    import duckdb

    queries = ["SELECT 1 WHERE FALSE -- none", "SELECT 2 ORDER BY 1;\n"]
    joined = join_expectations([not_null("a"), not_null("b", severity="warning")], queries)

    assert duckdb.sql(joined.arguments[by_change.QUERY]).fetchall() == [(2,)]
    assert joined.severity == "critical"
