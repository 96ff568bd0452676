"""What an expectation declares of changed rows is proven for its query, or refused; what reads the clock is whole."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion.checks import by_change, scope_proof
from medallion.checks.scope_proof import require_proven, why_unproven, why_unstable
from medallion.errors import MedallionError
from medallion.expect.scopes import ByChange, Keys, Lookup, Rows, Share, Sums, Tolerance, Window
from medallion.expect.vocabulary import Expectation, adds_up, at_least, no_rows, not_null, refers_to, unique
from tests.unit.test_check_by_change import Lake, basis_of, even_a_large_share, looked_at, verdicts  # noqa: F401

BLOCKED = Lookup((("blocked", "store", "store"),))
LATEST = Window("clicks", "seen", days=1)

PROVEN: list[tuple[str, ByChange]] = [
    ("SELECT * FROM {batch} WHERE paid > 90", Rows()),
    ("SELECT store, COUNT(*) AS n FROM {batch} WHERE paid > 90 GROUP BY store", Rows()),
    ("WITH few AS (SELECT paid FROM {batch}), rare AS (SELECT * FROM few) SELECT * FROM rare WHERE paid > 90", Rows()),
    ("WITH bad AS (SELECT DISTINCT paid FROM {batch}) SELECT * FROM bad WHERE paid > 90", Rows()),
    ("SELECT * FROM (SELECT id, store FROM {batch}) AS t (store, id) WHERE id > 90", Rows()),
    ("SELECT store FROM {batch} GROUP BY store HAVING SUM(paid) > 100", Keys(("store",))),
    ("SELECT store, tier FROM {batch} GROUP BY ALL HAVING SUM(paid) > 100", Keys(("store",))),
    (
        "SELECT a.id FROM {batch} AS a JOIN {batch} AS b ON a.store = b.store AND a.paid < b.paid WHERE a.tier > 1",
        Keys(("store",)),
    ),
    (
        "SELECT * FROM (SELECT *, SUM(paid) OVER (PARTITION BY store) AS total FROM {batch}) AS t WHERE total > 9",
        Keys(("store",)),
    ),
    ("SELECT a.*, b.* FROM {batch} AS a LEFT JOIN {batch} AS b ON a.store = b.store WHERE b.id = 3", Keys(("store",))),
    (
        "SELECT s.id FROM {batch} AS s LEFT JOIN {blocked} AS b ON b.store = s.store WHERE b.store IS NULL",
        BLOCKED,
    ),
    (
        "SELECT s.id FROM (SELECT x.* FROM (SELECT x.id, x.store FROM {batch} AS x) AS x) AS s"
        " INNER JOIN {blocked} AS b ON b.store = s.store",
        BLOCKED,
    ),
    (
        "SELECT s.store FROM (SELECT DISTINCT store FROM {batch}) AS s INNER JOIN"
        " (SELECT store, COUNT(*) AS n FROM {blocked} GROUP BY store) AS b ON b.store = s.store AND b.n > 1",
        BLOCKED,
    ),
    (
        "SELECT 1 FROM {batch} AS own, (SELECT COUNT(*) AS n FROM {clicks}"
        " WHERE seen > (SELECT MAX(seen) FROM {clicks}) - INTERVAL '24' HOUR) AS late WHERE own.n <> late.n",
        LATEST,
    ),
    (
        "SELECT c.n FROM {clicks} AS c"
        " WHERE c.n > 3 AND c.seen >= (SELECT MAX({clicks}.seen) FROM {clicks}) - INTERVAL 1 DAY",
        LATEST,
    ),
]

UNPROVEN: list[tuple[str, ByChange, str]] = [
    ("SELECT store FROM {batch} GROUP BY store HAVING SUM(paid) > 100", Rows(), "HAVING"),
    ("SELECT COUNT(*) FROM {batch} WHERE paid > 90", Rows(), "without GROUP BY"),
    ("SELECT store FROM {batch} WHERE SUM(paid) > 100", Rows(), "WHERE has an aggregate"),
    ("SELECT * FROM {batch} QUALIFY RANK() OVER (ORDER BY paid) > 3", Rows(), "QUALIFY"),
    ("SELECT * FROM {batch} WHERE paid > (SELECT AVG(paid) FROM {batch})", Rows(), "subquery"),
    ("SELECT s.* FROM {batch} AS s JOIN {blocked} AS b ON b.store = s.store", Rows(), "more than the rows"),
    ("SELECT id FROM {batch} EXCEPT SELECT store FROM {blocked}", Rows(), "not one SELECT"),
    ("SELECT paid FROM {batch} GROUP BY GROUPING SETS ((paid), ())", Rows(), "GROUPING SETS"),
    ("SELECT 1 FROM {batch} GROUP BY ()", Rows(), "GROUP BY ()"),
    ("SELECT 1 FROM {batch} GROUP BY (SELECT MAX(paid) FROM {batch})", Rows(), "GROUP BY has a subquery"),
    ("SELECT store, UNNEST(range(COUNT(*) - 1)) FROM {batch} GROUP BY store", Rows(), "unnest()"),
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM {batch} GROUP BY tier) AS t WHERE n > 1", Rows(), "groups rows"),
    ("SELECT n FROM (SELECT wavg(paid, 1) AS n FROM {batch}) AS t WHERE n > 3", Rows(), "groups rows"),
    ("SELECT n FROM (SELECT COUNT(*) OVER () AS n FROM {batch}) AS t WHERE n > 2", Rows(), "a window function"),
    ("SELECT n FROM (SELECT (SELECT COUNT(*) FROM {batch}) AS n FROM {batch}) AS t WHERE n > 2", Rows(), "SELECT has"),
    ("SELECT * FROM (SELECT store FROM {blocked}) AS t WHERE store > 90", Rows(), "more than the rows"),
    (
        "WITH bad (store, tier) AS (SELECT tier, store FROM {batch}) SELECT store FROM bad GROUP BY store"
        " HAVING COUNT(*) > 1",
        Keys(("store",)),
        "alias",
    ),
    ("SELECT 1 FROM {batch} HAVING wavg(paid, 1) > 3", Keys(("store",)), "not grouped by store"),
    (
        "SELECT tier FROM {batch} GROUP BY GROUPING SETS ((store, tier), (tier)) HAVING COUNT(*) > 1",
        Keys(("store",)),
        "several groupings",
    ),
    ("SELECT id FROM {batch} QUALIFY COUNT(*) OVER (PARTITION BY tier) > 1", Keys(("store",)), "not partitioned by"),
    (
        "SELECT store FROM {batch} GROUP BY store HAVING SUM(paid) > (SELECT AVG(paid) FROM {batch})",
        Keys(("store",)),
        "it has a subquery",
    ),
    (
        "SELECT 1 FROM {batch} AS a JOIN {batch} AS b ON a.store = b.store AND a.paid > (SELECT MIN(id) FROM {batch})",
        Keys(("store",)),
        "a join condition has a subquery",
    ),
    ("SELECT 1 FROM {batch} AS a JOIN {blocked} AS b ON a.store = b.store", Keys(("store",)), "more than one table"),
    ("SELECT 1 FROM {batch} JOIN {batch} AS b USING (store)", Keys(("store",)), "not one with ON"),
    ("SELECT 1 FROM {batch} AS a, {batch} AS b WHERE a.tier = b.id", Keys(("store",)), "not one with ON"),
    (
        "SELECT 1 FROM {batch} AS a JOIN range(3) AS b (store) ON a.store = b.store",
        Keys(("store",)),
        "more than tables and subqueries",
    ),
    # the key of a subquery is another column than that of the table
    *(
        (
            f"SELECT store FROM (SELECT {items} FROM {{batch}}) AS t GROUP BY store HAVING COUNT(*) > 1",
            Keys(("store",)),
            reason,
        )
        for items, reason in (
            ("* REPLACE (tier AS store)", "replaces them"),
            ("tier AS store, store", "something else"),
            ("COLUMNS('(note|store)_id') + 0 AS '\\1', *", "COLUMNS()"),
            ("UNNEST(note), *", "unnest()"),
            ("note.*, *", "does not give store"),
        )
    ),
    *(
        (
            f"SELECT store FROM (SELECT {items} FROM {{batch}} AS a LEFT JOIN {{batch}} AS b"
            " ON a.store = b.store AND b.paid > 5) AS t GROUP BY store HAVING COUNT(*) > 3",
            Keys(("store",)),
            reason,
        )
        for items, reason in (
            ("b.*, a.*", "does not give store"),
            ("* EXCLUDE (a.store)", "leaves columns out"),
            ("#7, *", "the number of a column"),
            ("a.tier, a.paid", "does not give store"),
        )
    ),
    *(
        (
            f"SELECT tier_1 FROM (SELECT {items} FROM {{batch}}) AS t GROUP BY tier_1 HAVING COUNT(*) > 1",
            Keys(("tier_1",)),
            "does not give tier_1",
        )
        for items in ("tier, store AS tier, *", "tier, store AS tier, tier_1")
    ),
    ("SELECT 1 FROM {batch} AS s (store, id) WHERE s.id > 3 GROUP BY s.id HAVING COUNT(*) > 1", Keys(("id",)), "alias"),
    ("SELECT tier FROM {batch} GROUP BY tier HAVING SUM(paid) > 100", Keys(("store",)), "not grouped by store"),
    ("SELECT tier AS store FROM {batch} GROUP BY store HAVING COUNT(*) > 1", Keys(("store",)), "something else"),
    (
        "SELECT * FROM {batch} AS s WHERE EXISTS"
        " (SELECT 1 FROM {batch} AS o WHERE o.note = s.note AND o.store <> s.store)",
        Keys(("store",)),
        "subquery",
    ),
    ("SELECT 1 FROM {batch} AS a JOIN {batch} AS b ON a.tier = b.tier", Keys(("store",)), "same store"),
    ("SELECT 1 FROM {batch} AS a FULL JOIN {batch} AS b ON a.store = b.store", Keys(("store",)), "FULL join"),
    # an outer join gives rows of all stores the key NULL
    (
        "SELECT b.store FROM {batch} AS a LEFT JOIN {batch} AS b ON a.store = b.store AND b.paid > 5"
        " GROUP BY b.store HAVING COUNT(*) > 3",
        Keys(("store",)),
        "not grouped by store",
    ),
    (
        "SELECT * FROM (SELECT id AS store, paid FROM {batch}) AS t GROUP BY ALL HAVING COUNT(*) > 1",
        Keys(("store",)),
        "store",
    ),
    (
        "SELECT s.* FROM {batch} AS s LEFT JOIN {blocked} AS b ON b.store <= s.store WHERE b.store IS NULL",
        BLOCKED,
        "not joined on b.store = s.store",
    ),
    (
        "SELECT s.* FROM {batch} AS s FULL JOIN {blocked} AS b ON b.store = s.store",
        BLOCKED,
        "no row refers to",
    ),
    (
        "SELECT s.store FROM {batch} AS s JOIN {blocked} AS b ON b.store = s.store"
        " GROUP BY s.store HAVING COUNT(*) > 1",
        BLOCKED,
        "HAVING",
    ),
    (
        "SELECT s.* FROM {batch} AS s JOIN {blocked} AS b ON b.store = s.store"
        " WHERE s.id NOT IN (SELECT store FROM {blocked})",
        BLOCKED,
        "subquery",
    ),
    (
        "SELECT s.* FROM {batch} AS s JOIN (SELECT MAX(store) AS store FROM {blocked}) AS b ON b.store = s.store",
        BLOCKED,
        "store",
    ),
    (
        "SELECT s.* FROM {batch} AS s JOIN {blocked} AS b"
        " ON b.store = s.store AND s.id IN (SELECT store FROM {blocked})",
        BLOCKED,
        "a join condition has a subquery",
    ),
    ("SELECT s.* FROM {batch} AS s JOIN {tiers} AS b ON b.store = s.store", BLOCKED, "what by_change does not name"),
    (
        "SELECT s.* FROM {batch} AS s JOIN {blocked} AS b ON b.store = s.store",
        Lookup((("blocked", "store", "store"), ("tiers", "tier", "tier"))),
        "it does not read tiers",
    ),
    # what is looked up is not the column of the table
    *(
        (f"SELECT s.* FROM {source} AS s JOIN {{blocked}} AS b ON b.store = s.store", BLOCKED, reason)
        for source, reason in (
            ("(SELECT tier AS store FROM {batch})", "s does not give store"),
            ("(SELECT store FROM (SELECT tier AS store FROM {batch}) AS t)", "t does not give store"),
            ("(SELECT note.store FROM {batch})", "s does not give store"),
            ("(SELECT note.* FROM {batch})", "s does not give store"),
            ("(SELECT store FROM {batch} AS t (store, id))", "alias"),
            ("(SELECT store, COUNT(*) AS n FROM {batch} GROUP BY store)", "groups rows"),
            ("{blocked}", "more than tables and subqueries"),
        )
    ),
    # rows that are not among the newest ones
    *(
        (f"SELECT 1 FROM {{batch}} AS own WHERE EXISTS (SELECT 1 FROM {source})", LATEST, reason)
        for source, reason in (
            ("{clicks} AS c WHERE own.seen > (SELECT MAX(seen) FROM {clicks}) - INTERVAL 1 DAY", "without seen >"),
            ("{clicks} AS c WHERE seen > (SELECT MAX(own.seen) FROM {clicks}) - INTERVAL 1 DAY", "without seen >"),
            ("{clicks} WHERE seen > (SELECT MAX(seen) FROM {clicks}) - INTERVAL (n + 1) DAY", "without seen >"),
            ("{clicks} WHERE seen > (SELECT MAX(seen) FROM {clicks} WHERE n > 3) - INTERVAL 1 DAY", "without seen >"),
            (
                "(SELECT MAX(seen) OVER (PARTITION BY n) AS m FROM {clicks}) AS c WHERE c.m < '2025-11-01'",
                "without seen",
            ),
            ("{clicks} AS c (seen, n) WHERE seen > (SELECT MAX(seen) FROM {clicks}) - INTERVAL 1 DAY", "alias"),
        )
    ),
    (
        "SELECT 1 FROM {batch} AS own, {clicks} AS c"
        " WHERE c.seen > (SELECT MAX(seen) FROM {clicks}) - INTERVAL '1' DAY",
        LATEST,
        "read it by itself",
    ),
    ("SELECT 1 FROM {batch}, (SELECT COUNT(*) AS n FROM {clicks}) AS c WHERE c.n > 3", LATEST, "without seen >"),
    (
        "SELECT 1 FROM (SELECT 1 FROM {clicks} WHERE seen > (SELECT MAX(seen) FROM {clicks}) - INTERVAL '2' DAY) AS c",
        LATEST,
        "without seen >",
    ),
    ("SELECT id FROM {batch} WHERE paid > 3", Sums("copies", (("n", "1", "1"),)), "adds_up"),
    ("SELECT id FROM {batch} WHERE paid > 3", Share("store", "blocked", "store", 3.0), "refers_to"),
    ("SELECT id FROM {batch} WHERE paid > 3", Tolerance("paid > 3", 3.0), "Tolerance"),
]

UNSTABLE = [
    ("SELECT * FROM {batch} WHERE due < now()", "now()"),
    ("SELECT * FROM {batch} WHERE due < current_date", "current_date"),
    ("SELECT * FROM {batch} WHERE due < 'today'", "'today'"),
    ("SELECT * FROM {batch} WHERE age(due) > INTERVAL 3 DAY AND ago(INTERVAL 1 DAY) > due", "ago()"),
    ("SELECT * FROM {batch} WHERE random() > 0.5", "random()"),
    ("SELECT * FROM {batch} USING SAMPLE 10 ROWS", "sample"),
    ("SELECT note FROM {batch} GROUP BY note HAVING any_value(paid) > 3", "any_value()"),
    ("SELECT * FROM (SELECT * FROM {batch} LIMIT 3) AS t WHERE paid > 3", "LIMIT"),
    ("SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY tier) AS n FROM {batch}) AS t WHERE n = 1", "row_number()"),
    ("SELECT * FROM bronze_orders WHERE paid > 3", "bronze_orders"),
    ("WITH bronze_orders AS (SELECT * FROM {batch}) SELECT * FROM main.bronze_orders", "bronze_orders"),
    ("WITH bronze_orders AS (SELECT * FROM bronze_orders) SELECT * FROM bronze_orders", "bronze_orders"),
    ("SELECT * FROM (WITH b AS (SELECT 1) SELECT * FROM b) AS a, b", "it reads b without"),
    ("SELECT current_schemas(true) FROM {batch}", "current_schemas()"),
    ("SELECT * FROM {batch} WHERE no_such_function(paid)", "no_such_function()"),
    ("SELECT FROM WHERE", "syntax"),
]


def said(query: str, scope: ByChange | None) -> Expectation:
    return no_rows(query, "it holds", by_change=scope)


@pytest.mark.parametrize(("query", "scope"), PROVEN)
def test_a_scope_is_proven_where_changed_rows_decide(query: str, scope: ByChange) -> None:
    assert why_unproven(said(query, scope)) is None


@pytest.mark.parametrize(("query", "scope", "reason"), UNPROVEN)
def test_a_scope_is_refused_where_other_rows_decide_too(query: str, scope: ByChange, reason: str) -> None:
    assert reason in (why_unproven(said(query, scope)) or "it was proven")


@pytest.mark.parametrize(("query", "reason"), UNSTABLE)
def test_a_query_that_may_answer_otherwise_is_noticed(query: str, reason: str) -> None:
    assert reason in (why_unstable(said(query, None)) or "it was taken for stable")


@pytest.mark.parametrize(
    "expectation",
    [
        unique("id", "note"),
        not_null("note"),
        at_least("paid", 0, allowed_percent=3),
        refers_to("store", "blocked"),
        refers_to("store", "blocked", allowed_percent=3),
        adds_up("it adds up", Sums("copies", (("n", "CASE WHEN paid > 10 THEN 1 END", "1"),), "paid > 10", by="id")),
    ],
    ids=lambda expectation: expectation.meaning,
)
def test_the_words_of_the_vocabulary_are_proven(expectation: Expectation) -> None:
    assert expectation.by_change is not None
    assert why_unproven(expectation) is None


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        ("SUM(paid) OVER ()", "window"),
        ("SUM(paid)", "aggregate"),
        ("DISTINCT paid", "not one expression"),  # the sums of two changes are not those of both
    ],
)
def test_a_measure_is_refused_where_it_is_not_one_value_of_each_row(measure: str, reason: str) -> None:
    scope = Sums("copies", (("n", measure, "1"),))

    assert reason in (why_unproven(adds_up("it adds up", scope)) or "it was proven")


NOTE = ("ExpectColumnValuesToNotBeNull", {"column": "note"}, "note IS NOT NULL")
MOSTLY = ("ExpectColumnValuesToNotBeNull", {"column": "note", "mostly": 0.9}, "note IS NOT NULL")


@pytest.mark.parametrize(
    ("declared", "scope", "reason"),
    [
        (("ExpectTableRowCountToBeBetween", {"max_value": 2}, None), Rows(), "not about single values"),
        (("ExpectColumnValuesToBeUnique", {"column": "id"}, "id > 0"), Rows(), "not about single values"),
        (MOSTLY, Rows(), "some rows may fail"),
        (MOSTLY, Tolerance("paid > 3", 10), "counts other rows"),
        (NOTE, Tolerance("note IS NOT NULL", 10), "counts other rows"),
        (MOSTLY, Tolerance("note IS NOT NULL", 20), "20 % may fail where mostly is 0.8"),
        (NOTE, Keys(("note",)), "Keys is about a query"),
        (("ExpectColumnValuesToBeBetween", {"column": "n"}, "n > (SELECT MAX(n) FROM t)"), Rows(), "has a subquery"),
        (("ExpectColumnValuesToBeBetween", {"column": "n"}, "n > random()"), Rows(), "random()"),
    ],
)
def test_an_expectation_without_a_query_is_refused_where_it_is_not_what_its_scope_says(
    declared: tuple[str, dict[str, object], str | None], scope: ByChange, reason: str
) -> None:
    kind, arguments, condition = declared
    expectation = Expectation(kind, arguments, "it holds", condition=condition, by_change=scope)

    assert reason in (why_unproven(expectation) or "it was proven")


def test_make_check_names_the_table_whose_scope_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    project = SimpleNamespace(registry=lambda *, extras: SimpleNamespace(layers=["silver"]))
    wrong = said("SELECT COUNT(*) FROM {batch} WHERE paid > 90", Rows())
    monkeypatch.setattr("medallion.project.find_project", lambda: project)
    monkeypatch.setattr("medallion.checks.suites.suites", lambda *_: {"sales": (wrong,)})

    with pytest.raises(SystemExit, match="medallion: sales: 'it holds' cannot be judged by Rows"):
        scope_proof.main()


def test_sums_of_floating_point_numbers_are_added_up_whole(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"totals": (adds_up("it adds up", Sums("lines", (("n", "n", "n"),))),)})
    for name in ("totals", "lines"):
        write_deltalake(lake.at(name), pa.table({"n": [0.5]}))
    basis = basis_of(lake.check())
    for name in ("totals", "lines"):
        write_deltalake(lake.at(name), pa.table({"n": [0.25]}), mode="append")

    assert looked_at(lake.check(basis)) == {"it adds up": by_change.WHOLE}


def test_sums_of_quotients_of_integers_are_added_up_whole(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"totals": (adds_up("it adds up", Sums("lines", (("n", "n / 10", "n / 10"),))),)})
    for name in ("totals", "lines"):
        write_deltalake(lake.at(name), pa.table({"n": [1]}))
    basis = basis_of(lake.check())
    for name in ("totals", "lines"):
        write_deltalake(lake.at(name), pa.table({"n": [2]}), mode="append")

    assert looked_at(lake.check(basis)) == {"it adds up": by_change.WHOLE}


def test_a_row_that_refers_to_nan_is_judged_alike_in_both_ways(tmp_path: Path) -> None:
    query = "SELECT s.store FROM {batch} AS s JOIN {blocked} AS b ON b.store = s.store"
    lake = Lake(tmp_path, {"sales": (said(query, BLOCKED),)})
    write_deltalake(lake.at("sales"), pa.table({"store": [1.0]}))
    write_deltalake(lake.at("blocked"), pa.table({"store": [2.0, float("nan"), 0.0]}))
    basis = basis_of(lake.check())
    write_deltalake(lake.at("sales"), pa.table({"store": [float("nan")]}), mode="append")

    assert verdicts(lake.check(basis)) == verdicts(lake.check()) == {("sales", "it holds"): (False, True)}


def test_old_rows_of_the_checked_table_are_read_where_its_newest_ones_are_meant_too(tmp_path: Path) -> None:
    newest = "SELECT COUNT(*) AS n FROM {clicks} WHERE seen > (SELECT MAX(seen) FROM {clicks}) - INTERVAL 1 DAY"
    lake = Lake(tmp_path, {"clicks": (said(f"SELECT 1 FROM {{batch}} AS b, ({newest}) AS c WHERE b.n > c.n", LATEST),)})
    write_deltalake(lake.at("clicks"), pa.table({"n": [1], "seen": [datetime(2025, 11, 20)]}))
    basis = basis_of(lake.check())
    write_deltalake(lake.at("clicks"), pa.table({"n": [9], "seen": [datetime(2025, 11, 2)]}), mode="append")

    assert verdicts(lake.check(basis)) == verdicts(lake.check()) == {("clicks", "it holds"): (False, True)}


def test_a_table_and_what_to_do_are_named_when_a_scope_is_refused() -> None:
    wrong = said("SELECT store FROM {batch} GROUP BY store HAVING SUM(paid) > 100", Rows())

    with pytest.raises(MedallionError, match="sales: 'it holds' cannot be judged by Rows: HAVING.*leave by_change out"):
        require_proven({"sales": [wrong]})


def test_an_expectation_that_reads_the_clock_is_judged_whole_when_no_row_has_changed(tmp_path: Path) -> None:
    fresh = no_rows("SELECT MAX(seen) FROM {batch} HAVING MAX(seen) < now() - INTERVAL 1 DAY", "events are fresh")
    lake = Lake(tmp_path, {"events": (unique("id"), fresh)})
    seen = pa.array([datetime.now(UTC) - timedelta(hours=23, minutes=59, seconds=58)], pa.timestamp("us", "UTC"))
    write_deltalake(lake.at("events"), pa.table({"id": pa.array([1]), "seen": seen}))
    basis = basis_of(lake.check())
    old = pa.array([datetime.now(UTC) - timedelta(days=2)], pa.timestamp("us", "UTC"))
    write_deltalake(lake.at("events"), pa.table({"id": pa.array([1]), "seen": old}), mode="overwrite")
    later = basis_of(lake.check(basis))  # fails: it is no proof for the next check

    again = lake.check(later)

    assert looked_at(again)["events are fresh"] == by_change.WHOLE
    assert verdicts(again)["events", "events are fresh"] == (False, True)


@pytest.mark.parametrize(("query", "scope", "_reason"), [case for case in UNPROVEN if isinstance(case[1], Rows | Keys)])
def test_an_unproven_scope_is_judged_on_whole_tables(tmp_path: Path, query: str, scope: ByChange, _reason: str) -> None:
    lake = Lake(tmp_path, {"sales": (said(query, scope),)})
    rows = {"id": [1, 2], "store": [1, 2], "tier": [1, 2], "paid": [1, 2], "note": ["a", "b"]}
    write_deltalake(lake.at("sales"), pa.table(rows))
    write_deltalake(lake.at("blocked"), pa.table({"store": [9]}))
    first = lake.check()
    known = basis_of(first)
    write_deltalake(lake.at("sales"), pa.table({name: values[:1] for name, values in rows.items()}), mode="append")

    assert looked_at(lake.check(known)) == {"it holds": by_change.WHOLE}
