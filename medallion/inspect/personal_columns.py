"""Personal columns above Bronze: columns that copy, directly or through other tables, a personal column of a feed."""

from collections.abc import Mapping, Set

from medallion.errors import MedallionError
from medallion.expect.vocabulary import NO_PERSONAL_COLUMNS, Expectation
from medallion.inspect.column_lineage import ColumnOf, column_lineage
from medallion.model.registry import Registry
from medallion.model.table import ChangeLog, Table


def personal_columns(tables: Registry) -> Mapping[ColumnOf, Set[ColumnOf]]:
    """Return each personal column of any table with the declared feed columns that it copies, or with itself."""
    return _carried(tables, {ColumnOf(f.name, c.lower()) for f in tables.feeds for c in f.personal_columns})


def subject_columns(tables: Registry) -> Set[ColumnOf]:
    """Return every column of any table whose values identify persons."""
    subjects = {ColumnOf(f.name, f.subject.lower()) for f in tables.feeds if f.subject and not f.subject_of}
    return _carried(tables, subjects).keys()


def _carried(tables: Registry, declared: Set[ColumnOf]) -> dict[ColumnOf, Set[ColumnOf]]:
    carried: dict[ColumnOf, Set[ColumnOf]] = {column: {column} for column in declared}
    if not declared:
        return carried
    copied = column_lineage(tables).copied
    order = {name: place for place, name in enumerate(tables.tables)}
    for column in sorted(copied, key=lambda known: order[known.table]):  # each table after its inputs
        if origins := {origin for source in copied[column] for origin in carried.get(source, ())}:
            carried[column] = origins
    return carried


def require_no_personal_columns(
    tables: Registry, promises: Mapping[str, tuple[Expectation, ...]], layer: str | None = None
) -> None:
    """Raise MedallionError if a table that promises to have no personal columns has one.

    promises: expectations of suites by table, in addition to the declared ones. layer: the layer to check; all by
    default.
    """
    promised = [
        table
        for table in tables
        if isinstance(table, Table | ChangeLog)
        and layer in (None, table.layer)
        and any(e.kind == NO_PERSONAL_COLUMNS for e in (*table.expectations, *promises.get(table.name, ())))
    ]
    if not promised:
        return
    personal = personal_columns(tables)
    for table in promised:
        for column in sorted(column for column in personal if column.table == table.name):
            origin = min(personal[column])
            raise MedallionError(
                f"{table.name} promises no personal columns, and its {column.column} is copied from"
                f" {origin.table}.{origin.column}: leave it out of the query, or take no_personal_columns() away"
            )
