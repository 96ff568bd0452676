"""Find tables to rebuild at the published hour: edited, new, or restored from a backup."""

from typing import TYPE_CHECKING

from medallion.errors import MedallionError
from medallion.model.registry import Registry
from medallion.model.selection import upstream_of
from medallion.model.table import Node, Table
from medallion.ops.releases import Release
from medallion.storage.foreign_commits import provenance
from medallion.storage.lake import Lake
from medallion.storage.named_versions import how_it_went_back

if TYPE_CHECKING:
    from deltalake import DeltaTable

CHANGED = "definition changed since it was built"
WENT_BACK = "not what readers have, as somebody restored its folder"


def is_definition_changed(lake: Lake, table: Node, delta: "DeltaTable | None") -> bool:
    """Check whether the rows of an opened table were computed by another query than the declared one.

    False for rows that another program wrote, because their query is unknown.
    """
    return isinstance(table, Table) and delta is not None and _is_of_another_query(lake, table, delta.version())


def _is_of_another_query(lake: Lake, table: Table, version: int) -> bool:
    origin = provenance(lake.folder(table.name), version).origin
    return origin.get("query") not in (None, table.fingerprint)


def find_tables_to_rebuild(lake: Lake, tables: Registry, release: Release | None) -> dict[str, str]:
    """Return the computed tables that a refresh of no new hour rebuilds, or builds for the first time, and why.

    release: what readers have.
    """
    reasons = {}
    for table in tables:
        if isinstance(table, Table):
            try:
                reason = _reason_to_rebuild(lake, table, release)
            except MedallionError:  # a damaged log: the next refresh reports and repairs it
                continue
            if reason:
                reasons[table.name] = reason
    return reasons


def edited_since(lake: Lake, tables: Registry, release: Release, name: str) -> list[str]:
    """Return table ``name`` and its upstream tables where another query computed the published rows."""
    followed = upstream_of(tables, {name})
    return [
        table.name
        for table in tables
        if isinstance(table, Table)
        and table.name in followed
        and (published := release.version_of(table.name)) is not None
        and _is_of_another_query(lake, table, published.version)
    ]


def _reason_to_rebuild(lake: Lake, table: Table, release: Release | None) -> str | None:
    delta = lake.open(lake.path(table.name))
    if delta is None or is_definition_changed(lake, table, delta):
        return CHANGED
    published = release.version_of(table.name) if release else None
    return WENT_BACK if published is not None and how_it_went_back(lake, published) else None
