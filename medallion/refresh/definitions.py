"""Tables whose definition is another now than the one that their rows were computed by."""

from typing import TYPE_CHECKING

from medallion.errors import MedallionError
from medallion.model.registry import Node, Registry
from medallion.model.table import Table
from medallion.storage.foreign_commits import provenance
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from deltalake import DeltaTable

CHANGED = "definition changed since it was built"


def is_definition_changed(lake: Lake, table: Node, delta: "DeltaTable | None") -> bool:
    """Check whether the rows of a table, as opened, were computed by another query than it is declared with.

    Not known, and so not claimed, of rows that this program did not write.
    """
    if not isinstance(table, Table) or delta is None:
        return False
    origin = provenance(lake.folder(table.name), delta.version()).origin
    return origin.get("query") not in (None, table.fingerprint)


def find_changed_definitions(lake: Lake, tables: Registry) -> list[str]:
    """Name the tables that a refresh rebuilds since their query changed, or builds for the first time, in order."""
    changed = []
    for table in tables:
        if isinstance(table, Table):
            try:
                delta = lake.open(lake.path(table.name))
            except MedallionError:  # a damaged log: the next refresh says so, and mends it
                continue
            if delta is None or is_definition_changed(lake, table, delta):
                changed.append(table.name)
    return changed
