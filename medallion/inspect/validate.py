"""Validate a release after publishing: every table is readable, complete, not empty if required, and at its hour."""

from collections.abc import Mapping
from typing import Any

from medallion.errors import MedallionError
from medallion.hours import hour_or_snapshot
from medallion.model.registry import Registry
from medallion.model.table import Node, Table
from medallion.ops.releases import Release
from medallion.storage.files import side_by_side
from medallion.storage.lake import Lake, hour_in, is_complete, state_of
from medallion.storage.named_versions import open_current

_NOT_EMPTY = "ExpectTableRowCountToBeBetween"  # the expectation of a table that must not be empty


def validate(lake: Lake, tables: Registry, release: Release, hour: str | None) -> dict[str, dict[str, Any]]:
    """Compare each table of ``release`` with what readers expect of it at ``hour``.

    A table is fresh if its data is as of ``hour``: a Bronze table by its own ledger, others by the hour of the release.

    Returns:
        By table name, its version, rows, hour and ``problem``, which is None if nothing is wrong.
    """
    entries = side_by_side(lambda table: _entry(lake, table, release, hour), tables)
    return {table.name: entry for table, entry in zip(tables, entries, strict=True)}


def _entry(lake: Lake, table: Node, release: Release, hour: str | None) -> dict[str, Any]:
    version, published = release.versions.get(table.name), release.version_of(table.name)
    entry: dict[str, Any] = {"version": version, "rows": None, "hour": release.hour, "problem": None}
    if published is None:
        return entry | {"problem": "it is in no release"}
    try:
        delta = open_current(lake, published)
    except MedallionError as error:
        return entry | {"problem": str(error)}
    entry["rows"] = rows = state_of(delta).rows
    entry["hour"] = data_hour = hour_in(delta) if not isinstance(table, Table) else release.hour
    if not is_complete(delta, lake.access):
        entry["problem"] = f"files of version {version} are missing"
    elif not rows and any(expectation.kind == _NOT_EMPTY for expectation in table.expectations):
        entry["problem"] = "it is empty"
    elif data_hour != hour:
        entry["problem"] = f"it is as of {hour_or_snapshot(data_hour)}"
    return entry


def problems(entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return one line for each table that has a problem."""
    return [f"{name}: {entry['problem']}" for name, entry in entries.items() if entry["problem"]]
