"""What a check of changed rows looks at: by induction from a former check of the same tables, and exact.

An expectation that passed at the versions a check has read still passes when the rows changed since pass, as its
``by_change`` says (expectations/scopes.py). A verdict that it passed is final; whatever fails is judged once more on
whole tables, so both ways agree on every input.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from expectations.scopes import Keys, Lookup, RowCount, Rows, Share, Sums
from expectations.vocabulary import Expectation
from medallion.checks.query_columns import named_columns
from medallion.ops.check_records import CheckedTable, Proof
from medallion.storage.change_feed import Changes, changes
from medallion.storage.duckdb_views import Views
from medallion.storage.lake import state_of

QUERY = "unexpected_rows_query"
INSERTED = "__inserted"  # the end of the name of a view, of the rows that were inserted into a table
MAX_CHANGED_SHARE = 0.3  # of the bytes of what an expectation reads, in files of changed rows: beyond it all is read
WHOLE, CHANGED, UNCHANGED = "whole table", "changed rows", "unchanged rows"


@dataclass(frozen=True)
class Basis:
    """A former check to go on from: the tables as it read them, and what held then, by table and fingerprint."""

    tables: Mapping[str, CheckedTable] = field(default_factory=dict)
    proofs: Mapping[str, Mapping[str, Proof]] = field(default_factory=dict)
    max_age: timedelta = timedelta(0)  # of the last look at whole tables


@dataclass(frozen=True)
class Look:
    """How one expectation is judged: ``way``, on ``view``, and the proof that its success leaves.

    expectation: None where nothing is to be judged, as nothing has changed. is_final: whether a verdict that it is
    broken stands; if not, the whole table is asked, which can also name the rows.
    """

    way: str
    view: str
    expectation: Expectation | None
    proof: Proof
    is_final: bool = False


def fingerprint(expectation: Expectation) -> str:
    """Changes with whatever an expectation says, and with how it is judged."""
    said = (expectation.kind, sorted(expectation.arguments.items()), expectation.severity, expectation.by_change)
    return sha256(repr(said).encode()).hexdigest()[:16]


class ChangedRows:
    """The changed rows of the tables under check, as views that are made when an expectation asks for them."""

    def __init__(self, views: Views, basis: Basis, at: datetime) -> None:
        self._views, self._basis, self._at = views, basis, at
        self._changes: dict[str, Changes | None] = {}
        self._sizes: dict[str, int] = {}
        self._with_views: set[str] = set()
        self._frames: dict[tuple[Any, ...], str] = {}

    def look(self, table: str, expectation: Expectation, other_tables: Iterable[str]) -> Look:
        """How ``expectation`` on ``table``, whose query names these other tables, is judged.

        Its query is bound to views; that of a look at the whole table is left to the caller.
        """
        former = self._basis.proofs.get(table, {}).get(fingerprint(expectation))
        if former is None or self._at - datetime.fromisoformat(former.whole_at) >= self._basis.max_age:
            return self.whole(table, expectation)
        changes_by_table = {name: self._since(name) for name in (table, *other_tables)}
        if any(part is None for part in changes_by_table.values()) or self._is_most_changed(changes_by_table):
            return self.whole(table, expectation)
        if not any(changes_by_table.values()):
            return Look(UNCHANGED, table, None, former)
        if expectation.by_change is None:
            return self.whole(table, expectation)
        for name in changes_by_table:
            self._make_views(name)
        view = f"{table}{INSERTED}"
        proof = self._recount(table, expectation.by_change, former)
        return Look(CHANGED, view, self._bind_to_change(table, expectation, proof), proof)

    def whole(self, table: str, expectation: Expectation) -> Look:
        """How ``expectation`` is judged on the whole of ``table``; of a share, by counts that the next check needs."""
        proof = Proof(self._at.isoformat())
        share = expectation.by_change
        if not isinstance(share, Share):
            return Look(WHOLE, table, expectation, proof, is_final=True)
        failed, values = self._count(table, share)
        proof = replace(proof, failed=failed, values=values)
        return Look(WHOLE, table, _with_query(expectation, _share_query(share, proof)), proof)

    def _since(self, name: str) -> Changes | None:
        """What changed in a table since the former check; None where that is not known."""
        if name not in self._changes:
            self._changes[name] = self._find_changes(name)
        return self._changes[name]

    def _find_changes(self, name: str) -> Changes | None:
        former, views = self._basis.tables.get(name), self._views
        if former is None or name not in views.versions or former.table_id != views.table_ids[name]:
            return None
        try:
            difference = changes(views.tables[name].folder, former.version, views.versions[name])
        except (OSError, ValueError):
            return None
        return None if difference.unknown else difference

    def _is_most_changed(self, changes_by_table: Mapping[str, Changes | None]) -> bool:
        """Whether reading the changed rows of these tables costs no less than reading the tables.

        A small table that was rewritten is compared by its change with a large one of which little has changed.
        """
        changed_bytes = sum(part.bytes for part in changes_by_table.values() if part)
        return changed_bytes > MAX_CHANGED_SHARE * sum(map(self._bytes, changes_by_table))

    def _bytes(self, name: str) -> int:
        if name not in self._sizes:
            self._sizes[name] = state_of(self._views.opened[name]).bytes
        return self._sizes[name]

    def _make_views(self, name: str) -> None:
        if name not in self._with_views:
            self._views.add_changes(name, self._changes[name] or Changes())
            self._with_views.add(name)

    def _bind_to_change(self, table: str, expectation: Expectation, proof: Proof) -> Expectation:
        inserted = f"{table}{INSERTED}"
        match expectation.by_change:
            case RowCount():
                rows, least = self._views.rows[table], expectation.arguments["min_value"]
                return _with_query(expectation, f"SELECT {rows} AS row_count WHERE {rows} < {least}")
            case Share() as share:
                return _with_query(expectation, _share_query(share, proof))
            case Rows() if QUERY not in expectation.arguments:
                return expectation
            case Rows():
                return _with_query(expectation, _bind(expectation, {"batch": inserted}))
            case Keys(columns):
                return _with_query(
                    expectation, _bind(expectation, {"batch": self._rows_sharing_values(table, columns)})
                )
            case Lookup(others):
                query = expectation.arguments[QUERY]
                read = named_columns(query, [field.name for field in self._views.opened[table].schema().fields])
                return _with_query(expectation, _bind(expectation, self._looked_up(table, read, others)))
            case Sums() as sums:
                sides = {
                    f"{role}_{side}": f"{name}__{side}"
                    for role, name in (("batch", table), (sums.of, sums.of))
                    for side in ("inserted", "deleted")
                }
                return _with_query(expectation, sums.by_change().format(**sides))
        raise AssertionError("look() judges any other on whole tables")

    def _rows_sharing_values(self, table: str, columns: Sequence[str]) -> str:
        """The rows of a table whose values in ``columns`` are those of an inserted or deleted row."""
        keys = self._values(table, columns)
        same = " AND ".join(f'sought."{name}" IS NOT DISTINCT FROM own."{name}"' for name in columns)
        return self._frame(
            ("touched", table, *columns),
            f"CREATE VIEW {{name}} AS SELECT * FROM {table} AS own WHERE EXISTS (SELECT 1 FROM {keys} AS sought"
            f" WHERE {same})",
        )

    def _looked_up(self, table: str, columns: Sequence[str], others: Sequence[tuple[str, str, str]]) -> dict[str, str]:
        """The view for each placeholder of a query that looks rows up in other tables. columns: what it reads."""
        columns = [*dict.fromkeys((*columns, *(column for _, _, column in others)))]
        column_list = ", ".join(f'"{name}"' for name in columns)
        refers = " OR ".join(
            f'"{column}" IN (SELECT "{key}" FROM {self._values(other, (key,))})' for other, key, column in others
        )
        batch = self._frame(
            ("looking", table, *columns, *others),
            f"CREATE TABLE {{name}} AS SELECT {column_list} FROM {table}__inserted"
            f" UNION ALL SELECT {column_list} FROM {table} WHERE {refers}",
        )
        frames = {"batch": batch}
        for other, key, column in others:
            frames[other] = self._frame(
                ("looked up", batch, other, key, column),
                f'CREATE VIEW {{name}} AS SELECT * FROM {other} WHERE "{key}" IN (SELECT "{column}" FROM {batch})',
            )
        return frames

    def _values(self, table: str, columns: Sequence[str]) -> str:
        """A table of the values that ``columns`` have in the inserted and deleted rows."""
        column_list = ", ".join(f'"{name}"' for name in columns)
        return self._frame(
            ("values", table, *columns),
            f"CREATE TABLE {{name}} AS SELECT {column_list} FROM {table}__inserted UNION SELECT {column_list}"
            f" FROM {table}__deleted",
        )

    def _frame(self, of: tuple[Any, ...], statement: str) -> str:
        if of not in self._frames:
            name = f"frame__{len(self._frames)}"
            self._views.connection.execute(statement.format(name=name))
            self._frames[of] = name
        return self._frames[of]

    def _count(self, table: str, share: Share) -> tuple[int, int]:
        """The rows of a whole table that fail an expectation of a share, and those that have a value."""
        known = f'SELECT 1 FROM {share.table} AS known WHERE known."{share.key}" = checked."{share.column}"'
        query = (
            f"SELECT COUNT(*) FILTER (NOT EXISTS ({known})), COUNT(*) FROM {table} AS checked"
            f' WHERE "{share.column}" IS NOT NULL'
        )
        failed, values = self._views.connection.execute(query).fetchall()[0]
        return failed, values

    def _recount(self, table: str, scope: object, former: Proof) -> Proof:
        """The counts of a share, brought up to date.

        With n rows and m known rows of a key, now and before, a key counts n where m is 0: so keys that became known
        or unknown count with all of their rows, and the others with the rows that changed.
        """
        if not isinstance(scope, Share) or former.failed is None or former.values is None:
            return former
        query = _RECOUNT.format(table=table, column=scope.column, known=scope.table, key=scope.key)
        failed, values = self._views.connection.execute(query).fetchall()[0]
        return replace(former, failed=former.failed + failed, values=former.values + values)


_RECOUNT = """
    WITH changed AS MATERIALIZED (
        SELECT key, SUM(step) AS step
        FROM (
            SELECT "{column}" AS key, 1 AS step FROM {table}__inserted
            UNION ALL SELECT "{column}", -1 FROM {table}__deleted
        )
        WHERE key IS NOT NULL
        GROUP BY key
    ),
    moved AS MATERIALIZED (
        SELECT key, SUM(step) AS step
        FROM (
            SELECT "{key}" AS key, 1 AS step FROM {known}__inserted
            UNION ALL SELECT "{key}", -1 FROM {known}__deleted
        )
        WHERE key IS NOT NULL
        GROUP BY key
    ),
    sought AS MATERIALIZED (SELECT key FROM changed UNION SELECT key FROM moved),
    present AS (
        SELECT "{key}" AS key, COUNT(*) AS known FROM {known} WHERE "{key}" IN (SELECT key FROM sought) GROUP BY ALL
    ),
    states AS MATERIALIZED (
        SELECT
            sought.key,
            COALESCE(present.known, 0) = 0 AS is_unknown,
            COALESCE(present.known, 0) - COALESCE(moved.step, 0) = 0 AS was_unknown,
            COALESCE(changed.step, 0) AS step
        FROM sought
        LEFT JOIN present ON present.key = sought.key
        LEFT JOIN moved ON moved.key = sought.key
        LEFT JOIN changed ON changed.key = sought.key
    ),
    flipped AS MATERIALIZED (SELECT key, is_unknown FROM states WHERE is_unknown <> was_unknown),
    of_flipped AS (
        SELECT COALESCE(SUM(CASE WHEN flipped.is_unknown THEN 1 ELSE -1 END), 0) AS failed
        FROM {table} AS checked
        INNER JOIN flipped ON flipped.key = checked."{column}"
    ),
    of_changed AS (
        SELECT COALESCE(SUM(CASE WHEN was_unknown THEN step END), 0) AS failed, COALESCE(SUM(step), 0) AS counted
        FROM states
    )
    SELECT CAST(of_flipped.failed + of_changed.failed AS BIGINT), CAST(of_changed.counted AS BIGINT)
    FROM of_flipped CROSS JOIN of_changed
"""


def _with_query(expectation: Expectation, query: str) -> Expectation:
    return replace(expectation, kind="UnexpectedRowsExpectation", arguments={QUERY: query})


def _share_query(share: Share, proof: Proof) -> str:
    condition = f"100 * {proof.failed}::HUGEINT > {share.allowed_percent} * {proof.values}::HUGEINT"
    return f"SELECT {proof.failed} AS failed, {proof.values} AS checked WHERE {condition}"


def _bind(expectation: Expectation, frames: Mapping[str, str]) -> str:
    return str(expectation.arguments[QUERY]).format(**frames)
