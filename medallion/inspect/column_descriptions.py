"""The description of each column: its own, or that of the column that it passes on unchanged."""

from collections.abc import Mapping

from medallion.errors import BadDeclaration
from medallion.inspect.column_lineage import ColumnOf, column_lineage
from medallion.model.registry import Registry
from medallion.model.table import Table


def column_descriptions(tables: Registry) -> Mapping[ColumnOf, str]:
    """Return the description of each column of any table; columns without a description are left out.

    Raises BadDeclaration for a description of a column that its table does not have.
    """
    lineage, descriptions = column_lineage(tables), dict[ColumnOf, str]()
    computed: dict[str, list[ColumnOf]] = {}
    for column in lineage.sources:
        computed.setdefault(column.table, []).append(column)
    for table in tables:  # each after its inputs
        if isinstance(table, Table):
            columns = computed[table.name]
        else:
            columns = [ColumnOf(table.name, column.name.lower()) for column in table.columns]
        own = {ColumnOf(table.name, name.lower()): text for name, text in table.descriptions.items()}
        if unknown := sorted(own.keys() - {*columns}):
            raise BadDeclaration(f"{table.name} describes {unknown[0].column}, which its query does not give")
        for column in columns:
            text = own.get(column) or descriptions.get(lineage.passed_on.get(column, column))
            if text:
                descriptions[column] = text
    return descriptions


def descriptions_by_table(tables: Registry) -> dict[str, dict[str, str]]:
    """Return column descriptions by table and lower-case column name. Raises as ``column_descriptions`` does."""
    by_table: dict[str, dict[str, str]] = {table.name: {} for table in tables}
    for column, text in column_descriptions(tables).items():
        by_table[column.table][column.column] = text
    return by_table


def undescribed(tables: Registry) -> list[ColumnOf]:
    """Return every column without a description, in table order."""
    known, lineage = column_descriptions(tables), column_lineage(tables)
    columns = [*lineage.sources, *(ColumnOf(f.name, c.name.lower()) for f in tables.feeds for c in f.columns)]
    return [column for name in tables.tables for column in columns if column.table == name and column not in known]
