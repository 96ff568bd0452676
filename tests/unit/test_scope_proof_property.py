"""Random queries whose scope is proven: what changed rows say is what whole tables say, whatever changed.

The rows that a check binds are made here in memory, as medallion/checks/by_change.py makes them, so that thousands of
queries are tried in seconds.
"""

import random
from collections import Counter
from collections.abc import Sequence

import duckdb
import pytest

from medallion.checks.scope_proof import why_unproven
from medallion.expect.scopes import ByChange, Keys, Lookup, Rows
from medallion.expect.vocabulary import no_rows

COLUMNS = ("k", "j", "v")
KINDS = ("Rows", "Keys", "Lookup")
MAX_QUERIES = 1_000  # few of them are proven
Rows_ = list[tuple[int | None, ...]]


class Writer:
    """Queries of many shapes, right and wrong ones, by chance."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def scope(self) -> ByChange:
        return self._chance.choice(
            [Rows(), Keys(("k",)), Keys(("k", "j")), Lookup((("other", "k", "k"),)), Lookup((("other", "k", "j"),))]
        )

    def query(self) -> str:
        pick = self._chance.choice
        source = pick([self._table(), self._joined(), self._joined(), f"({self._inner()}) AS a"])
        names = [f"a.{name}" for name in COLUMNS]
        has_b = " AS b" in source
        where = pick(["", "", f" WHERE {self._condition(has_b)}", f" WHERE {self._condition(has_b)}"])
        if pick([True, False]):
            groups = self._chance.sample(names, pick([1, 1, 2]))
            having = pick(["", f" HAVING {self._aggregate(has_b)}", f" HAVING {self._aggregate(has_b)}"])
            return f"SELECT {', '.join(groups)} FROM {source}{where} GROUP BY {', '.join(groups)}{having}"
        items = pick(["*", "a.*", "a.k, a.v", "a.v AS k, a.k AS v", "COUNT(*)", "MAX(a.v)", "DISTINCT a.k"])
        window = f" QUALIFY SUM(a.v) OVER (PARTITION BY {pick(['a.k', 'a.j', 'a.k, a.j'])}) > {pick([0, 3])}"
        return f"SELECT {items} FROM {source}{where}{pick(['', '', '', window])}"

    def _table(self) -> str:
        return self._chance.choice(["{batch} AS a", "{batch} AS a", "{other} AS a"])

    def _joined(self) -> str:
        pick = self._chance.choice
        kind = pick(
            ["JOIN", "LEFT JOIN", "LEFT JOIN", "LEFT JOIN", "FULL JOIN", "ANTI JOIN", "SEMI JOIN", "RIGHT JOIN"]
        )
        right = pick(["{other}", "{other}", "{other}", "{batch}", f"({self._inner(pick(['other', 'batch']))})"])
        on = pick(
            [
                "a.k = b.k",
                "b.k = a.k",
                "a.k = b.k",
                "a.j = b.k",
                "a.j = b.k",
                "a.k = b.k AND a.j = b.j",
                "a.k <= b.k",
                "a.v = b.v",
            ]
        )
        return f"{{batch}} AS a {kind} {right} AS b ON {on}{pick(['', ' AND b.v > 1', ' AND a.v < b.v'])}"

    def _inner(self, table: str = "batch") -> str:
        pick = self._chance.choice
        return pick(
            [
                f"SELECT * FROM {{{table}}}",
                f"SELECT DISTINCT k, j, v FROM {{{table}}} WHERE v > {pick([0, 2])}",
                f"SELECT k, j, SUM(v) AS v FROM {{{table}}} GROUP BY k, j",
                f"SELECT k, MAX(j) AS j, COUNT(*) AS v FROM {{{table}}} GROUP BY k",
                f"SELECT j AS k, k AS j, v FROM {{{table}}}",
                f"SELECT k, j, MAX(v) OVER (PARTITION BY k) AS v FROM {{{table}}}",
                f"SELECT *, v AS w FROM {{{table}}}",
            ]
        )

    def _condition(self, has_b: bool) -> str:
        pick = self._chance.choice
        plain = ["a.v > 2", "a.k IS NULL", "a.j IN (1, 2)", "a.v + a.k < 3", "(SELECT MAX(v) FROM {batch}) > a.v + 2"]
        return pick([*plain, *(["b.k IS NULL", "b.v IS DISTINCT FROM a.v"] * 3 if has_b else [])])

    def _aggregate(self, has_b: bool) -> str:
        pick = self._chance.choice
        column = pick(["a.v", "b.v"] if has_b else ["a.v"])
        return pick([f"SUM({column}) > {pick([2, 5])}", f"COUNT(*) > {pick([1, 2])}", f"MIN({column}) IS NULL"])


def rows(chance: random.Random, count: int) -> Rows_:
    return [tuple(chance.choice([None, 0, 1, 2, 3]) for _ in COLUMNS) for _ in range(count)]


def put(connection: duckdb.DuckDBPyConnection, name: str, content: Rows_) -> None:
    values = ", ".join(str(row).replace("None", "NULL") for row in content)
    connection.execute(f"CREATE OR REPLACE TABLE {name} (k INT, j INT, v INT)")
    if content:
        connection.execute(f"INSERT INTO {name} VALUES {values}")


def change(content: Rows_, chance: random.Random) -> tuple[Rows_, Rows_, Rows_]:
    """The rows after a change, those that it inserted, and those that it deleted."""
    deleted = chance.sample(content, min(len(content), chance.randrange(3)))
    inserted = rows(chance, chance.randrange(3))
    return [*(Counter(content) - Counter(deleted)).elements(), *inserted], inserted, deleted


def touched(table: str, columns: Sequence[str]) -> str:
    """The rows of a table that share the value of each column with a changed row."""
    changed = f"(FROM {table}_inserted UNION ALL FROM {table}_deleted)"
    shared = (f"EXISTS (FROM {changed} AS c WHERE c.{c} IS NOT DISTINCT FROM {table}.{c})" for c in columns)
    return f"(FROM {table} WHERE {' AND '.join(shared)})"


def bound(query: str, scope: ByChange) -> str:
    """A query over what a check of changed rows reads."""
    match scope:
        case Rows():
            return query.format(batch="batch_inserted", other="other")
        case Keys(columns):
            return query.format(batch=touched("batch", columns), other="other")
        case Lookup(((_, key, column),)):
            changed = f"(SELECT {key} FROM other_inserted UNION ALL SELECT {key} FROM other_deleted)"
            batch = f"(FROM batch_inserted UNION ALL FROM batch WHERE {column} IN {changed})"
            return query.format(batch=batch, other=f"(FROM other WHERE {key} IN (SELECT {column} FROM {batch}))")
    raise AssertionError(scope)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_changed_rows_say_what_whole_tables_say_for_random_queries_that_are_proven(seed: int) -> None:
    chance, judged = random.Random(seed), Counter[tuple[str, bool]]()
    with duckdb.connect() as connection:
        for _ in range(MAX_QUERIES):
            if judged.total() > 150 and all(judged[kind, True] for kind in KINDS):
                break
            writer = Writer(chance)
            query, scope = writer.query(), writer.scope()
            if why_unproven(no_rows(query, "none", by_change=scope)) is not None:
                continue
            whole = query.format(batch="batch", other="other")
            for _ in range(40):
                before = {name: rows(chance, chance.randrange(7)) for name in ("batch", "other")}
                for name, content in before.items():
                    put(connection, name, content)
                try:
                    if connection.execute(whole).fetchall():
                        continue  # no former check has passed
                except duckdb.BinderException:
                    break
                for name, content in before.items():
                    after, inserted, deleted = change(content, chance)
                    for end, part in (("", after), ("_inserted", inserted), ("_deleted", deleted)):
                        put(connection, name + end, part)
                fails = bool(connection.execute(whole).fetchall())

                assert bool(connection.execute(bound(query, scope)).fetchall()) == fails, (query, scope)
                judged[type(scope).__name__, fails] += 1
    assert all(judged[kind, fails] for kind in KINDS for fails in (True, False)), judged
