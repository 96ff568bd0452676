"""A check of changed rows says what a check of whole tables says, whatever changed."""

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.checks import by_change
from medallion.checks.by_change import Basis
from medallion.checks.checkpoint import CheckedLayer, run_checkpoint
from medallion.checks.context import CheckContext
from medallion.checks.query_columns import named_columns
from medallion.checks.result import CheckResult
from medallion.expect.scopes import Keys, Lookup, RowCount, Rows, Sums, Window
from medallion.expect.vocabulary import (
    Expectation,
    adds_up,
    at_least,
    between,
    in_set,
    no_rows,
    not_empty,
    not_null,
    refers_to,
    unique,
)
from medallion.ops.check_records import CheckedTable
from medallion.storage.duckdb_views import TableAt
from tests.unit.test_suites import ACROSS, BREAKS, OWN, PROMISES, QUERY, bad_rows, database  # noqa: F401

DAY = timedelta(days=1)
Suites = Mapping[str, Sequence[Expectation]]
Verdicts = dict[tuple[str, str], tuple[bool, bool]]

SCHEMA = pa.schema([("id", pa.int64()), ("tier", pa.int64()), ("paid", pa.int64()), ("note", pa.string())])
OTHER = pa.schema([("id", pa.int64()), ("paid", pa.int64())])
COPY_AS_NOW = no_rows(
    "SELECT checked.id FROM {batch} AS checked LEFT JOIN {copies} AS copy ON copy.id = checked.id"
    " WHERE copy.id IS NULL OR copy.paid IS DISTINCT FROM checked.paid",
    "every row is as in copies",
    by_change=Lookup((("copies", "id", "id"),)),
)
SHOP: Sequence[Expectation] = (
    unique("id"),
    not_null("note"),
    in_set("note", ("a", "b")),
    at_least("paid", 0),
    between("paid", 0, 50, allowed_percent=20),
    not_empty(),
    refers_to("tier", "tiers", "id"),
    refers_to("tier", "tiers", "id", allowed_percent=30, severity="warning"),
    COPY_AS_NOW,
    adds_up("rows and sums are those of copies", Sums("copies", (("n", "1", "1"), ("paid", "paid", "paid")))),
    adds_up("what is above 10 adds up", Sums("copies", (("n", "CASE WHEN paid > 10 THEN 1 END", "1"),), "paid > 10")),
    no_rows("SELECT * FROM {batch} WHERE paid > 90", "nobody pays above 90", by_change=Rows()),
    no_rows(
        "SELECT note FROM {batch} GROUP BY note HAVING SUM(paid) > 150",
        "no note has more than 150",
        by_change=Keys(("note",)),
    ),
    no_rows(
        "SELECT tier, note FROM {batch} GROUP BY ALL HAVING SUM(paid) > 80",
        "no note of a tier has more than 80",
        by_change=Keys(("tier", "note")),
    ),
    not_null("paid", allowed_percent=20, severity="warning"),
    no_rows("SELECT 1 WHERE (SELECT COUNT(*) FROM {batch}) > 30", "at most 30 rows"),
    no_rows(
        "SELECT 1 FROM (SELECT COUNT(*) AS n FROM {batch}) AS own, (SELECT COUNT(*) AS n FROM {copies}) AS copied"
        " WHERE own.n > copied.n + 1",
        "at most one row more than copies has",
        by_change=RowCount(),
    ),
)


class Lake:
    """Delta tables, and checks of them in both ways."""

    def __init__(self, root: Path, suites: Suites) -> None:
        self.root, self.suites = root, suites

    def at(self, name: str) -> str:
        return str(self.root / name)

    def check(self, basis: Basis | None = None, about: Suites | None = None) -> CheckResult:
        tables = {path.name: TableAt(path) for path in self.root.iterdir() if path.name != "reports"}
        suites = self.suites if about is None else about
        checked = CheckedLayer("silver", "2025-11-30T00", "run")
        return run_checkpoint(
            checked, tables, suites=suites, reports=self.root / "reports", context=CheckContext(basis=basis)
        )


def basis_of(result: CheckResult) -> Basis:
    tables = {
        name: CheckedTable(version, result.table_ids[name], result.rows[name])
        for name, version in result.versions.items()
    }
    return Basis(tables, result.proofs, DAY)


def verdicts(result: CheckResult) -> Verdicts:
    return {
        (table.table, line.meaning): (line.success, line.error is None)
        for table in result.tables
        for line in table.expectations
    }


def looked_at(result: CheckResult) -> dict[str, str]:
    return {line.meaning: line.looked_at for table in result.tables for line in table.expectations}


@pytest.fixture(autouse=True)
def even_a_large_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of tests are small: one row is a large share of them."""
    monkeypatch.setattr(by_change, "MAX_CHANGED_SHARE", float("inf"))


# -- any change of any table


def rows_of(path: str, schema: pa.Schema) -> list[dict[str, Any]]:
    return DeltaTable(path).to_pyarrow_table().cast(schema).to_pylist()


def change(lake: Lake, chance: random.Random) -> None:
    """Insert, update or delete a few rows of a table, by appending, by a delete with a change feed, or by rewriting."""
    name = chance.choice(["shop", "shop", "copies", "tiers"])
    schema = {"shop": SCHEMA, "copies": OTHER, "tiers": pa.schema([("id", pa.int64())])}[name]
    key = chance.randrange(14)
    row = {
        "id": chance.choice([key, key, None]),
        "tier": chance.choice([1, 2, 3, None]),
        "paid": chance.choice([0, 5, 20, 20, 60, 95, -1, None]),
        "note": chance.choice(["a", "a", "a", "b", "c", None]),
    }
    match chance.choice(["append", "append", "delete", "rewrite", "both", "put back"]):
        case "append":
            both = [name] if chance.random() < 0.5 or name == "tiers" else ["shop", "copies"]
            for table in both:
                columns = SCHEMA if table == "shop" else schema if table == name else OTHER
                write_deltalake(lake.at(table), pa.Table.from_pylist([row], schema=columns), mode="append")
        case "delete":
            DeltaTable(lake.at(name)).delete(f"id = {key % 4 if name == 'tiers' else key}")
        case "rewrite":
            kept = [old for old in rows_of(lake.at(name), schema) if chance.random() < 0.9]
            write_deltalake(lake.at(name), pa.Table.from_pylist(kept, schema=schema), mode="overwrite")
        case "both":  # one row replaced by another in two commits
            DeltaTable(lake.at(name)).delete(f"id = {key}")
            write_deltalake(lake.at(name), pa.Table.from_pylist([row], schema=schema), mode="append")
        case "put back":  # what makes most promises hold again
            good = [{"id": n, "tier": 1 + n % 2, "paid": 5, "note": "a"} for n in range(8)]
            write_deltalake(lake.at("shop"), pa.Table.from_pylist(good, schema=SCHEMA), mode="overwrite")
            write_deltalake(lake.at("copies"), pa.Table.from_pylist(good, schema=OTHER), mode="overwrite")
            tiers = pa.table({"id": pa.array([1, 2], pa.int64())})
            write_deltalake(lake.at("tiers"), tiers, mode="overwrite")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_check_of_changed_rows_equals_one_of_whole_tables_for_random_histories(tmp_path: Path, seed: int) -> None:
    chance, lake = random.Random(seed), Lake(tmp_path, {"shop": SHOP})
    feed = {"delta.enableChangeDataFeed": "true"}
    good = [{"id": n, "tier": 1 + n % 2, "paid": 5, "note": "a"} for n in range(8)]
    write_deltalake(lake.at("shop"), pa.Table.from_pylist(good, schema=SCHEMA), configuration=feed)
    write_deltalake(lake.at("copies"), pa.Table.from_pylist(good, schema=OTHER), configuration=feed)
    write_deltalake(lake.at("tiers"), pa.table({"id": pa.array([1, 2], pa.int64())}), configuration=feed)
    former, changed = lake.check(), 0
    for step in range(7):
        for _ in range(chance.choice([1, 1, 2, 3])):
            change(lake, chance)

        by_rows, whole = lake.check(basis_of(former)), lake.check()

        assert verdicts(by_rows) == verdicts(whole), f"step {step}"
        shares = {name: {p: (x.failed, x.values) for p, x in proofs.items()} for name, proofs in whole.proofs.items()}
        for name, proofs in by_rows.proofs.items():
            assert {p: (x.failed, x.values) for p, x in proofs.items()} == shares[name], f"step {step}"
        changed += list(looked_at(by_rows).values()).count(by_change.CHANGED)
        former = by_rows
    assert changed, "no expectation was judged by its changed rows"


@pytest.mark.parametrize("columns", [("x",), ("n", "x")])
def test_rows_that_share_nan_are_found(tmp_path: Path, columns: tuple[str, ...]) -> None:
    lake = Lake(tmp_path, {"shop": [unique(*columns)]})
    write_deltalake(lake.at("shop"), pa.table({"n": [1, 1, 1], "x": [1.0, float("nan"), 0.0]}))
    basis = basis_of(lake.check())
    write_deltalake(lake.at("shop"), pa.table({"n": [1], "x": [float("nan")]}), mode="append")

    assert set(verdicts(lake.check(basis)).values()) == {(False, True)}


def test_a_tolerance_of_part_of_a_percent_is_judged_alike_in_both_ways(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"shop": [at_least("n", 0, allowed_percent=0.1)]})
    write_deltalake(lake.at("shop"), pa.table({"n": [1] * 999}))
    basis = basis_of(lake.check())
    write_deltalake(lake.at("shop"), pa.table({"n": [-1]}), mode="append")

    assert verdicts(lake.check(basis)) == verdicts(lake.check())


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Lookup((("copies", "id", "id"), ("copies", "id", "tier"))),
        lambda: Lookup(()),
        lambda: Keys(()),
        lambda: no_rows("SELECT 1 FROM {batch} HAVING COUNT(DISTINCT id) > 2", "few", by_change=RowCount()),
        lambda: no_rows("SELECT COUNT(*) FROM (SELECT DISTINCT * FROM {batch})", "few", by_change=RowCount()),
        lambda: Expectation("ExpectTableRowCountToBeBetween", {"max_value": 2}, "few", by_change=RowCount()),
    ],
)
def test_what_a_change_does_not_prove_is_refused(declare: Callable[[], object]) -> None:
    with pytest.raises(
        ValueError, match="a look-up names (a table twice|no table)|names no column|judged by numbers of rows"
    ):
        declare()


# -- the newest rows

CLICKS = pa.schema([("clicked_at", pa.timestamp("us", "UTC")), ("n", pa.int64())])
LAST_DAY = no_rows(
    "SELECT recent.n FROM (SELECT SUM(n) AS n FROM {clicks} WHERE clicked_at >"
    " (SELECT MAX(clicked_at) FROM {clicks}) - INTERVAL 1 DAY)"
    " AS recent CROSS JOIN (SELECT SUM(n) AS n FROM {batch}) AS total WHERE recent.n IS DISTINCT FROM total.n",
    "the last day of clicks adds up",
    by_change=Window("clicks", "clicked_at", days=1),
)
CLICKED = [
    {"clicked_at": datetime(2025, 11, 28 + number // 12, 2 * (number % 12), tzinfo=UTC), "n": 1} for number in range(24)
]


@pytest.mark.parametrize(
    ("change", "total", "holds"),
    [
        ("nothing", 12, True),
        ("a newer click", 12, True),  # the one of a day before it is no longer counted
        ("a newer click", 13, False),
        ("a click of long ago", 12, True),
        ("without the newest", 12, True),
        ("without the newest", 11, False),
        ("none", None, True),
    ],
)
def test_the_newest_rows_are_judged_alike_in_both_ways(
    tmp_path: Path, change: str, total: int | None, holds: bool
) -> None:
    lake = Lake(tmp_path, {"total": [LAST_DAY]})
    write_deltalake(lake.at("clicks"), pa.Table.from_pylist(CLICKED, schema=CLICKS))
    write_deltalake(lake.at("total"), pa.table({"n": pa.array([12], pa.int64())}))
    basis = basis_of(lake.check())
    newest = max(click["clicked_at"] for click in CLICKED)
    match change:
        case "a newer click":
            newer = pa.Table.from_pylist([{"clicked_at": newest + timedelta(hours=2), "n": 1}], schema=CLICKS)
            write_deltalake(lake.at("clicks"), newer, mode="append")
        case "a click of long ago":
            old = pa.Table.from_pylist([{"clicked_at": newest - timedelta(days=9), "n": 1}], schema=CLICKS)
            write_deltalake(lake.at("clicks"), old, mode="append")
        case "without the newest":
            kept = [click for click in CLICKED if click["clicked_at"] < newest]
            write_deltalake(lake.at("clicks"), pa.Table.from_pylist(kept, schema=CLICKS), mode="overwrite")
        case "none":
            write_deltalake(lake.at("clicks"), pa.Table.from_pylist([], schema=CLICKS), mode="overwrite")
    write_deltalake(lake.at("total"), pa.table({"n": pa.array([total], pa.int64())}), mode="overwrite")

    by_rows, whole = lake.check(basis), lake.check()

    assert verdicts(by_rows) == verdicts(whole) == {("total", LAST_DAY.meaning): (holds, True)}
    if holds:
        assert looked_at(by_rows) == {LAST_DAY.meaning: by_change.CHANGED}


# -- sums by group

LINES = pa.schema([("grp", pa.int64()), ("n", pa.int64())])
ACTIVE = pa.schema([("grp", pa.int64())])
SUMS: Suites = {
    "totals": [adds_up("each group adds up", Sums("lines", (("n", "n", "n"), ("rows", "k", "1")), by="grp"))],
    "active_totals": [
        adds_up("each active group adds up", Sums("lines", (("n", "n", "n"),), "n > 0", by="grp", within="active"))
    ],
}
TOTALS = {
    "totals": "SELECT grp, SUM(n)::BIGINT AS n, COUNT(*) AS k FROM lines GROUP BY grp",
    "active_totals": "SELECT grp, SUM(n)::BIGINT AS n FROM lines WHERE n > 0 AND grp IN (FROM active) GROUP BY grp",
}


def refresh_totals(lake: Lake, name: str) -> None:
    with duckdb.connect() as connection:
        for table in ("lines", "active"):
            connection.register(table, DeltaTable(lake.at(table)).to_pyarrow_table())
        write_deltalake(lake.at(name), connection.execute(TOTALS[name]).to_arrow_table(), mode="overwrite")


def change_lines(lake: Lake, chance: random.Random) -> None:
    """Insert or delete lines, make a group active or not, in one commit or through a commit that is undone."""
    group = chance.choice([0, 1, 2, 3, None])
    line = pa.Table.from_pylist([{"grp": group, "n": chance.choice([1, 2, -1, None])}], schema=LINES)
    active = pa.Table.from_pylist([{"grp": group}], schema=ACTIVE)
    match chance.choice(["line", "line", "no lines", "activate", "deactivate", "reactivate"]):
        case "line":
            write_deltalake(lake.at("lines"), line, mode="append")
        case "no lines":
            DeltaTable(lake.at("lines")).delete(f"grp = {group or 0} AND n = {chance.choice([1, 2])}")
        case "activate":
            write_deltalake(lake.at("active"), active, mode="append")
        case "deactivate":
            DeltaTable(lake.at("active")).delete(f"grp = {group or 0}")
        case "reactivate":
            write_deltalake(lake.at("active"), active, mode="append")
            DeltaTable(lake.at("active")).delete(f"grp = {group or 0}")
            write_deltalake(lake.at("active"), active, mode="append")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_sums_by_group_are_judged_alike_in_both_ways_for_random_histories(tmp_path: Path, seed: int) -> None:
    chance, lake = random.Random(seed), Lake(tmp_path, SUMS)
    feed = {"delta.enableChangeDataFeed": "true"}
    lines = [{"grp": number % 4, "n": 1 + number % 3} for number in range(12)]
    write_deltalake(lake.at("lines"), pa.Table.from_pylist(lines, schema=LINES), configuration=feed)
    write_deltalake(lake.at("active"), pa.table({"grp": pa.array([0, 1], pa.int64())}), configuration=feed)
    for name in TOTALS:
        refresh_totals(lake, name)
    former, passed, failed = lake.check(), 0, 0
    for step in range(9):
        for _ in range(chance.choice([1, 2, 3])):
            change_lines(lake, chance)
        for name in TOTALS:
            if chance.random() < 0.8:
                refresh_totals(lake, name)
        if chance.random() < 0.2:
            group = pa.Table.from_pylist([{"grp": chance.choice([0, 3, None]), "n": 1}], schema=LINES)
            write_deltalake(lake.at("active_totals"), group, mode="append")

        by_rows, whole = lake.check(basis_of(former)), lake.check()

        assert verdicts(by_rows) == verdicts(whole), f"step {step}"
        passed += list(looked_at(by_rows).values()).count(by_change.CHANGED)
        failed += [success for success, _ in verdicts(whole).values()].count(False)
        former = by_rows
    assert passed and failed


def test_a_group_that_became_active_in_two_commits_is_added_up_as_a_whole(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"active_totals": SUMS["active_totals"]})
    write_deltalake(lake.at("lines"), pa.Table.from_pylist([{"grp": 5, "n": 10}], schema=LINES))
    write_deltalake(lake.at("active"), pa.Table.from_pylist([{"grp": 1}], schema=ACTIVE))
    write_deltalake(lake.at("active_totals"), pa.Table.from_pylist([], schema=LINES))
    basis = basis_of(lake.check())
    write_deltalake(lake.at("active"), pa.Table.from_pylist([{"grp": 5}], schema=ACTIVE), mode="append")
    DeltaTable(lake.at("active")).delete("grp = 5")
    write_deltalake(lake.at("active"), pa.Table.from_pylist([{"grp": 5}], schema=ACTIVE), mode="append")
    for table in ("lines", "active_totals"):  # both grow by 1, one from 10 and the other from nothing
        write_deltalake(lake.at(table), pa.Table.from_pylist([{"grp": 5, "n": 1}], schema=LINES), mode="append")

    assert [success for success, _ in verdicts(lake.check(basis)).values()] == [False]


def test_sums_within_a_table_say_by_which_column() -> None:
    with pytest.raises(ValueError, match="say by which column"):
        Sums("lines", (("n", "n", "n"),), within="active")


# -- every promise of every table


@pytest.fixture(scope="module")
def shop(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, Basis]]:  # noqa: F811
    """The shop of test_suites as Delta tables, and the check that passed on them."""
    suites: dict[str, list[Expectation]] = {}
    for table, expectation in PROMISES:
        suites.setdefault(table, []).append(expectation)
    lake = Lake(tmp_path_factory.mktemp("shop"), suites)
    with duckdb.connect(database) as connection:
        for table in suites:
            write_deltalake(lake.at(table), connection.execute(f"FROM {table}").to_arrow_table())
        result = lake.check()
        assert [line for line, (success, _) in verdicts(result).items() if not success] == []
        yield lake, basis_of(result)


def changed_copy(shop: Lake, connection: duckdb.DuckDBPyConnection, tables: Sequence[str], root: Path) -> Lake:
    """A copy of the lake in which these tables are rewritten with what they hold in the database now."""
    lake = Lake(root, shop.suites)
    shutil.copytree(shop.root, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("reports"))
    for table in tables:
        write_deltalake(lake.at(table), connection.execute(f"FROM {table}").to_arrow_table(), mode="overwrite")
    return lake


def suites_of(shop: Lake, table: str) -> Suites:
    """The promises of a table, and those that name it."""
    about = {
        name: [e for e in suite if name == table or f"{{{table}}}" in e.arguments.get(QUERY, "")]
        for name, suite in shop.suites.items()
    }
    return {name: suite for name, suite in about.items() if suite}


@pytest.mark.parametrize(("table", "expectation"), ACROSS, ids=[f"{t}: {e.meaning}" for t, e in ACROSS])
def test_one_changed_row_breaks_a_promise_across_tables_in_both_ways(
    shop: tuple[Lake, Basis],
    database: str,  # noqa: F811
    tmp_path: Path,
    table: str,
    expectation: Expectation,
) -> None:
    statement = BREAKS[table, expectation.meaning]
    changed = re.search(r"(?:bronze|silver|gold|platinum)_\w+", statement)
    assert changed
    with duckdb.connect(database) as connection:
        connection.begin()
        connection.execute(statement)
        lake = changed_copy(shop[0], connection, [changed[0]], tmp_path / "lake")
        connection.rollback()
    about = {table: [expectation]}

    by_rows, whole = lake.check(shop[1], about), lake.check(None, about)

    assert verdicts(by_rows) == verdicts(whole) == {(table, expectation.meaning): (False, True)}


@pytest.mark.slow
def test_one_bad_row_breaks_every_promise_of_a_table_in_both_ways(
    shop: tuple[Lake, Basis],
    database: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    with duckdb.connect(database) as connection:
        connection.begin()
        for table, expectation in OWN:
            for bad in bad_rows(expectation):
                row = f"* REPLACE ({bad})" if bad else "*"
                connection.execute(f"INSERT INTO {table} SELECT {row} FROM {table} LIMIT 1")
        lake = changed_copy(shop[0], connection, list(shop[0].suites), tmp_path / "lake")
        connection.rollback()
    own = {table: [e for name, e in OWN if name == table] for table in lake.suites}

    by_rows, whole = lake.check(shop[1], own), lake.check(None, own)

    assert verdicts(by_rows) == verdicts(whole)
    kept = {key for key, (success, _) in verdicts(by_rows).items() if success}
    strict = {(t, e.meaning) for t, e in OWN if bad_rows(e) and "mostly" not in e.arguments}
    assert not kept & strict


@pytest.mark.parametrize(
    "table", sorted({name for t, e in ACROSS for name in (t, *re.findall(r"\{(\w+_\w+)\}", e.arguments[QUERY]))})
)
def test_one_removed_row_is_judged_alike_in_both_ways(
    shop: tuple[Lake, Basis],
    database: str,  # noqa: F811
    tmp_path: Path,
    table: str,
) -> None:
    with duckdb.connect(database) as connection:
        connection.begin()
        connection.execute(f"DELETE FROM {table} WHERE rowid = (SELECT MIN(rowid) FROM {table})")
        lake = changed_copy(shop[0], connection, [table], tmp_path / "lake")
        connection.rollback()
    about = suites_of(lake, table)

    by_rows, whole = lake.check(shop[1], about), lake.check(None, about)

    assert verdicts(by_rows) == verdicts(whole)


# -- when whole tables are looked at


@pytest.fixture
def small(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, {"shop": [unique("id"), not_null("id"), not_empty()]})
    write_deltalake(lake.at("shop"), pa.table({"id": [1, 2, 3]}))
    return lake


def ways(lake: Lake, basis: Basis) -> set[str]:
    return set(looked_at(lake.check(basis)).values())


def test_nothing_is_judged_again_when_no_row_has_changed(small: Lake) -> None:
    basis = basis_of(small.check())
    DeltaTable(small.at("shop")).optimize.compact()

    assert ways(small, basis) == {by_change.UNCHANGED}


def test_whole_tables_are_looked_at_when_the_last_time_was_too_long_ago(small: Lake) -> None:
    basis = basis_of(small.check())

    assert ways(small, Basis(basis.tables, basis.proofs, timedelta(0))) == {by_change.WHOLE}


def test_rows_are_counted_by_the_files_where_the_log_has_no_number(small: Lake) -> None:
    (commit,) = (small.root / "shop" / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    commit.write_text("\n".join(json.dumps(action) for action in actions))

    assert small.check().rows == {"shop": 3}


def test_whole_tables_are_looked_at_when_the_expectation_has_changed(small: Lake) -> None:
    basis = basis_of(small.check())
    small.suites = {"shop": [at_least("id", 0)]}

    assert ways(small, basis) == {by_change.WHOLE}


def test_whole_tables_are_looked_at_when_the_table_was_rebuilt(small: Lake) -> None:
    basis = basis_of(small.check())
    shutil.rmtree(small.at("shop"))
    write_deltalake(small.at("shop"), pa.table({"id": [1, 2, 3]}))

    assert ways(small, basis) == {by_change.WHOLE}


def test_whole_tables_are_looked_at_when_changes_are_no_longer_kept(small: Lake) -> None:
    basis = basis_of(small.check())
    write_deltalake(small.at("shop"), pa.table({"id": [4]}), mode="append")
    write_deltalake(small.at("shop"), pa.table({"id": [4]}), mode="overwrite")
    DeltaTable(small.at("shop")).vacuum(0, enforce_retention_duration=False, dry_run=False)

    assert ways(small, basis) == {by_change.WHOLE}


def test_whole_tables_are_looked_at_when_most_of_a_table_has_changed(
    small: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    basis = basis_of(small.check())
    monkeypatch.setattr(by_change, "MAX_CHANGED_SHARE", 0.3)
    write_deltalake(small.at("shop"), pa.table({"id": [4, 5]}), mode="overwrite")

    assert ways(small, basis) == {by_change.WHOLE}


def test_the_report_says_how_each_expectation_was_judged(small: Lake) -> None:
    basis = basis_of(small.check())
    write_deltalake(small.at("shop"), pa.table({"id": [3]}), mode="append")

    result = small.check(basis)

    assert looked_at(result) == {
        "id is unique": by_change.WHOLE,  # broken by the changed rows, so the whole table was asked for its rows
        "id is never null": by_change.CHANGED,
        "the table is not empty": by_change.CHANGED,
    }
    page = (small.root / "reports" / result.page).read_text()
    assert by_change.CHANGED in page and by_change.WHOLE in page


def test_a_rewritten_small_table_is_compared_with_a_large_one_by_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_change, "MAX_CHANGED_SHARE", 0.3)
    total = adds_up("the total is that of the parts", Sums("parts", (("n", "n", "n"),)))
    lake = Lake(tmp_path, {"total": (total, at_least("n", 0))})
    write_deltalake(lake.at("parts"), pa.table({"n": list(range(20_000))}))
    write_deltalake(lake.at("total"), pa.table({"n": [sum(range(20_000))]}))
    basis = basis_of(lake.check())
    write_deltalake(lake.at("parts"), pa.table({"n": [7]}), mode="append")
    write_deltalake(lake.at("total"), pa.table({"n": [sum(range(20_000)) + 7]}), mode="overwrite")

    result = lake.check(basis)

    assert looked_at(result) == {total.meaning: by_change.CHANGED, "n is at least 0": by_change.WHOLE}
    assert set(verdicts(result).values()) == {(True, True)}


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("SELECT c.id FROM {batch} AS c LEFT JOIN {tiers} AS t ON t.id = c.Tier WHERE t.id IS NULL", ["id", "tier"]),
        ("SELECT tier, COUNT(*) FROM {batch} GROUP BY tier", ["tier"]),
        ("SELECT c.* FROM {batch} AS c", SCHEMA.names),
        ("SELECT c.id FROM {batch} AS c WHERE c.id IS DISTINCT FROM c.tier", ["id", "tier"]),
        ("SELECT 1 FROM {batch} NATURAL JOIN {tiers}", SCHEMA.names),
        ("SELECT COLUMNS(*) FROM {batch}", SCHEMA.names),
        ("SELECT #2 FROM {batch}", SCHEMA.names),
        ("(FROM {batch}) EXCEPT (FROM {tiers})", SCHEMA.names),
        ("SELECT HASH(c) FROM {batch} AS c WHERE c.id > 0", SCHEMA.names),
        ("SELECT HASH(c) FROM {batch} c WHERE c.id > 0", SCHEMA.names),
        ('SELECT HASH("c") FROM {batch} "c"', SCHEMA.names),
        ("SELECT HASH({batch}) FROM {batch}", SCHEMA.names),
        ("SELECT HASH(*) FROM {batch}", SCHEMA.names),
        ("SELECT 1 FROM {batch} AS a JOIN {batch} AS b ON a.id = b.id WHERE a.tier <> b.tier", ["id", "tier"]),
        ("SELECT 1 FROM {batch} AS a JOIN {batch} AS b ON a.id = b.id WHERE a <> b", SCHEMA.names),
        ("(TABLE {batch}) EXCEPT (TABLE {copies})", SCHEMA.names),
        ("WITH one AS (SELECT 1) FROM {batch} EXCEPT FROM {copies}", SCHEMA.names),
        ("SELECT id FROM {copies} UNION ALL FROM {batch}", SCHEMA.names),
        ("PIVOT {batch} ON id USING COUNT(*)", SCHEMA.names),
        ("SUMMARIZE {batch}", SCHEMA.names),
        ("SELECT id FROM {batch} WHERE note = 'from * table'", ["id", "note"]),
        ("SELECT id FROM {batch} -- it's paid\nWHERE paid > 0 AND note = 'x'", SCHEMA.names),
        ("SELECT id FROM {batch} /* it's paid */ WHERE paid > 0 AND note = 'x'", SCHEMA.names),
        ("SELECT id AS \"it's\" FROM {batch} WHERE paid > 0 AND note = 'x'", ["id", "paid", "note"]),
        ("SELECT id FROM {batch} WHERE note = $$it's$$ AND paid > 0 AND note <> 'x'", SCHEMA.names),
        ("SELECT id FROM {batch} WHERE note = E'it\\'s' AND paid > 0 AND note <> 'x'", SCHEMA.names),
    ],
)
def test_rows_are_looked_up_with_the_columns_that_a_query_may_read(query: str, read: list[str]) -> None:
    assert named_columns(query, SCHEMA.names) == read
