"""Choose what a check of changed rows reads: exact, by induction from an earlier check of the same tables.

An expectation that passed at the versions of an earlier check still passes if the rows changed since pass, in the scope
that its ``by_change`` declares (medallion/expect/scopes.py). A pass is final. A failure is judged again on whole
tables, so both ways agree on every input.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from medallion.checks.query_columns import named_columns
from medallion.checks.scope_proof import QUERY, why_unproven, why_unstable
from medallion.checks.shares import count, count_change, share_query
from medallion.expect.scopes import ByChange, Counted, Keys, Lookup, RowCount, Rows, Share, Sums, Tolerance, Window
from medallion.expect.vocabulary import Expectation
from medallion.ops.check_records import CheckedTable, Proof
from medallion.storage.change_feed import Changes, changes
from medallion.storage.duckdb_views import Views

_SIDES = ("inserted", "deleted")
INSERTED = "__inserted"  # the end of the name of a view, of the rows that were inserted into a table
MAX_CHANGED_SHARE = 0.3  # of the bytes of what an expectation reads, in files of changed rows: beyond it all is read
WHOLE, CHANGED, UNCHANGED = "whole table", "changed rows", "unchanged rows"


@dataclass(frozen=True)
class Basis:
    """An earlier check to start from: the tables as it read them, and what held, by table and expectation digest."""

    tables: Mapping[str, CheckedTable] = field(default_factory=dict)
    proofs: Mapping[str, Mapping[str, Proof]] = field(default_factory=dict)
    max_age: timedelta = timedelta(0)  # of the last check of whole tables


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


def expectation_digest(expectation: Expectation) -> str:
    """Return a digest of what an expectation says and how it is judged."""
    identity = (expectation.kind, sorted(expectation.arguments.items()), expectation.severity, expectation.by_change)
    return sha256(repr(identity).encode()).hexdigest()[:16]


class ChangedRows:
    """The changed rows of the tables under check, as views that are made when an expectation asks for them.

    large: the tables that DuckDB does not read whole, unless Spark cannot.
    """

    def __init__(self, views: Views, basis: Basis, at: datetime, large: Collection[str] = ()) -> None:
        self._views, self._basis, self._at, self._large = views, basis, at, large
        self._changes: dict[str, Changes | None] = {}
        self._with_views: set[str] = set()
        self._frames: dict[tuple[Any, ...], str] = {}

    def look(self, table: str, expectation: Expectation, other_tables: Iterable[str]) -> Look:
        """How ``expectation`` on ``table``, whose query names these other tables, is judged.

        Its query is bound to views; that of a look at the whole table is left to the caller.
        """
        former = self._basis.proofs.get(table, {}).get(expectation_digest(expectation))
        if former is None or why_unstable(expectation) is not None:
            return self.whole(table, expectation)
        if self._at - datetime.fromisoformat(former.whole_at) >= self._basis.max_age:
            return self.whole(table, expectation)
        changes_by_table = {name: self._since(name) for name in (table, *other_tables)}
        if any(part is None for part in changes_by_table.values()) or self._is_most_changed(changes_by_table):
            return self.whole(table, expectation)
        if not any(changes_by_table.values()):
            return Look(UNCHANGED, table, None, former)
        scope = expectation.by_change
        if scope is None or why_unproven(expectation) is not None or self._compares_floats(table, scope):
            return self.whole(table, expectation)
        for name in changes_by_table:
            self._make_views(name)
        view = f"{table}{INSERTED}"
        if isinstance(scope, Counted):
            return self._look_at_counts(table, expectation, scope, former)
        return Look(CHANGED, view, self._bind_to_change(table, expectation), former)

    def whole(self, table: str, expectation: Expectation, *, by_duckdb: bool = False) -> Look:
        """How ``expectation`` is judged on the whole of ``table``; failed rows are counted for the next check.

        by_duckdb: whether DuckDB counts them also in large tables.
        """
        proof, scope = Proof(self._at.isoformat()), expectation.by_change
        if not isinstance(scope, Counted) or why_unproven(expectation) is not None:
            return Look(WHOLE, table, expectation, proof, is_final=True)
        if not by_duckdb and (table in self._large or (isinstance(scope, Share) and scope.table in self._large)):
            return Look(WHOLE, table, expectation, proof, is_final=True)
        failed, values = count(self._views.connection, table, scope)
        proof = replace(proof, failed=failed, values=values)
        if isinstance(scope, Tolerance):
            return Look(WHOLE, table, expectation, proof, is_final=True)
        return Look(WHOLE, table, with_query(expectation, share_query(scope, failed, values)), proof)

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
            difference = changes(views.tables[name].folder, former.version, views.versions[name], former.commit)
        except (OSError, ValueError):
            return None
        return None if difference.unknown else difference

    def _is_most_changed(self, changes_by_table: Mapping[str, Changes | None]) -> bool:
        """Whether reading the changed rows of these tables costs as much as reading the tables whole.

        Bytes are added up over the tables, so a rewritten small table hardly counts beside an unchanged large one.
        """
        changed_bytes = sum(part.bytes for part in changes_by_table.values() if part)
        return changed_bytes > MAX_CHANGED_SHARE * sum(self._views.bytes[name] for name in changes_by_table)

    def _compares_floats(self, table: str, scope: ByChange) -> bool:
        """Whether it sums floating-point numbers, or looks rows up by them.

        Adding only the changes drifts from summing all rows, and the bounds by which DuckDB skips parts of files leave
        NaN out.
        """
        if isinstance(scope, Lookup):
            columns = [pair for other, key, column in scope.others for pair in ((table, column), (other, key))]
            return any(_is_float(self._types(name)[column]) for name, column in columns)
        if not isinstance(scope, Sums):
            return False
        for name, place in ((table, 1), (scope.of, 2)):
            types = ", ".join(f"typeof(SUM({measure[place]}))" for measure in scope.measures)
            (summed,) = self._views.connection.execute(f"SELECT {types} FROM (FROM {name} LIMIT 0)").fetchall()
            if any(map(_is_float, summed)):
                return True
        return False

    def _types(self, table: str) -> dict[str, str]:
        """The type of each column of a table, by name."""
        return {field.name: str(field.type) for field in self._views.opened[table].schema().fields}

    def _make_views(self, name: str) -> None:
        if name not in self._with_views:
            self._views.add_changes(name, self._changes[name] or Changes())
            self._with_views.add(name)

    def _bind_to_change(self, table: str, expectation: Expectation) -> Expectation:
        inserted = f"{table}{INSERTED}"
        match expectation.by_change:
            case RowCount() if QUERY in expectation.arguments:
                counts = {**self._views.rows, "batch": self._views.rows[table]}
                frames = {name: f"(SELECT 1 FROM range({rows}))" for name, rows in counts.items()}
                return with_query(expectation, _bind(expectation, frames))
            case RowCount():
                rows, least = self._views.rows[table], expectation.arguments["min_value"]
                return with_query(expectation, f"SELECT {rows} AS row_count WHERE {rows} < {least}")
            case Rows() if QUERY not in expectation.arguments:
                return expectation
            case Rows():
                return with_query(expectation, _bind(expectation, {"batch": inserted}))
            case Keys(columns):
                view = self._rows_sharing_values(table, columns, self._read_by(expectation, table, columns))
                return with_query(expectation, _bind(expectation, {"batch": view}))
            case Lookup(others):
                return with_query(expectation, _bind(expectation, self._looked_up(table, expectation, others)))
            case Sums() as sums:
                views = {"batch": table, sums.of: sums.of, sums.within: sums.within}
                sides = {f"{role}_{side}": f"{name}__{side}" for role, name in views.items() for side in _SIDES}
                return with_query(expectation, sums.by_change().format(**views, **sides))
            case Window() as window:
                return with_query(expectation, _bind(expectation, self._newest_rows(table, window)))
        raise AssertionError("look() judges any other on whole tables")

    def _look_at_counts(self, table: str, expectation: Expectation, scope: Counted, former: Proof) -> Look:
        if former.failed is None or former.values is None:
            return self.whole(table, expectation)
        failed, values = count_change(self._views.connection, table, scope)
        proof = replace(former, failed=former.failed + failed, values=former.values + values)
        query = share_query(scope, former.failed + failed, former.values + values)
        return Look(CHANGED, f"{table}{INSERTED}", with_query(expectation, query), proof)

    def _read_by(self, expectation: Expectation, table: str, keys: Iterable[str], role: str = "batch") -> list[str]:
        """``keys`` and the columns that an expectation's query reads of ``table``, which it calls by its ``role``."""
        columns = [field.name for field in self._views.opened[table].schema().fields]
        return [*dict.fromkeys((*keys, *named_columns(expectation.arguments[QUERY], columns, role)))]

    def _rows_sharing_values(self, table: str, columns: Sequence[str], read: Sequence[str]) -> str:
        """The rows of a table whose value in each of ``columns`` is that of an inserted or deleted row.

        These may be more rows than share all values, but always all the rows of a group.
        """
        keys, connection = self._values(table, columns), self._views.connection
        types = self._types(table)
        conditions = []
        for name in columns:
            # IN, unlike IS NOT DISTINCT FROM, lets DuckDB skip the parts of files whose bounds exclude all values.
            condition = f'"{name}" IN (SELECT "{name}" FROM {keys})'
            if connection.execute(f'SELECT 1 FROM {keys} WHERE "{name}" IS NULL LIMIT 1').fetchall():
                condition = f'({condition} OR "{name}" IS NULL)'
            if _is_float(types[name]):  # bounds leave NaN out
                condition = f'({condition} OR ISNAN("{name}"))'
            conditions.append(condition)
        return self._frame(
            ("touched", table, *columns, *read),
            f"CREATE TABLE {{name}} AS SELECT {_list(read)} FROM {table} WHERE {' AND '.join(conditions)}",
        )

    def _newest_rows(self, table: str, window: Window) -> dict[str, str]:
        """The view for each placeholder of a query that reads the newest rows of a table."""
        column = f'"{window.column}"'
        newest = f"SELECT {column} AS newest FROM {window.table} ORDER BY {column} DESC LIMIT 1"
        first = f"SELECT CAST(newest - INTERVAL {window.days} DAY AS VARCHAR) FROM ({newest})"
        ((since,),) = self._views.connection.execute(first).fetchall() or [(None,)]
        rows = self._frame(
            ("newest", *astuple(window)),
            f"CREATE VIEW {{name}} AS SELECT * FROM {window.table} WHERE "
            + (f"{column} >= '{since}'" if since else "FALSE"),
        )
        names = {name: name for name in self._views.versions} | {window.table: rows}
        return names | {"batch": table}  # whole, also where it is the table whose newest rows are read

    def _looked_up(
        self, table: str, expectation: Expectation, others: Sequence[tuple[str, str, str]]
    ) -> dict[str, str]:
        """The table for each placeholder of a query that looks rows up in other tables."""
        columns = self._read_by(expectation, table, (column for _, _, column in others))
        refers = " OR ".join(
            f'"{column}" IN (SELECT "{key}" FROM {self._values(other, (key,))})' for other, key, column in others
        )
        batch = self._frame(
            ("looking", table, *columns, *others),
            f"CREATE TABLE {{name}} AS SELECT {_list(columns)} FROM {table}__inserted"
            f" UNION ALL SELECT {_list(columns)} FROM {table} WHERE {refers}",
        )
        frames = {"batch": batch}
        for other, key, column in others:
            read = _list(self._read_by(expectation, other, (key,), other))
            frames[other] = self._frame(
                ("looked up", batch, other, key, column, read),
                f"CREATE TABLE {{name}} AS SELECT {read} FROM {other}"
                f' WHERE "{key}" IN (SELECT "{column}" FROM {batch})',
            )
        return frames

    def _values(self, table: str, columns: Sequence[str]) -> str:
        """A table of the values that ``columns`` have in the inserted and deleted rows."""
        return self._frame(
            ("values", table, *columns),
            f"CREATE TABLE {{name}} AS SELECT {_list(columns)} FROM {table}__inserted"
            f" UNION SELECT {_list(columns)} FROM {table}__deleted",
        )

    def _frame(self, of: tuple[Any, ...], statement: str) -> str:
        if of not in self._frames:
            name = f"frame__{len(self._frames)}"
            self._views.connection.execute(statement.format(name=name))
            self._frames[of] = name
        return self._frames[of]


def _is_float(kind: str) -> bool:
    """Whether a type, as Delta or DuckDB writes it, has floating-point numbers."""
    return any(name in kind.lower() for name in ("double", "float"))


def with_query(expectation: Expectation, query: str) -> Expectation:
    """Return ``expectation`` to be judged by a query, which returns what failed."""
    return replace(expectation, kind="UnexpectedRowsExpectation", arguments={QUERY: query})


def _list(columns: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _bind(expectation: Expectation, frames: Mapping[str, str]) -> str:
    return str(expectation.arguments[QUERY]).format(**frames)
