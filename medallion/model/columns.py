"""Declared columns, and those that every change log has in addition."""

from dataclasses import dataclass, field
from functools import cached_property

from medallion.model.column_types import SqlType, parse_type


@dataclass(frozen=True)
class Column:
    """A declared column: its SQL type, whether a value is required, and the meaning of its values."""

    name: str
    type: str
    required: bool
    description: str = field(default="", compare=False)

    @cached_property
    def sql_type(self) -> SqlType:
        """The parsed type."""
        return parse_type(self.type)


# Columns of a log in addition to those of the row. Rows that existed when the log began have no hour.
ORIGIN = (
    Column("_deleted", "BOOLEAN", True, "Whether the change deletes the row"),
    Column("_hour", "TIMESTAMP", False, "The hour of the change file; null for rows of before the log began"),
    Column("_line", "BIGINT", True, "The line of the change file, from 1"),
    Column("_source_file", "STRING", True, "The file that brought the change"),
    Column("_source_system", "STRING", True, "The system that sent the change"),
    Column("_loaded_at", "TIMESTAMP", True, "When the change was written to the log"),
)


def descriptions_of(columns: tuple[Column, ...]) -> dict[str, str]:
    """Return the descriptions of the columns that have one, by column."""
    return {column.name: column.description for column in columns if column.description}
