"""What each commit of a table records about its change: the columns by which rows are replaced, and the method.

Incremental aggregates rely on it: if a commit replaces rows by ``order_id``, the change data feed contains all rows of
each touched order, before and after.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from medallion.storage import fence

# Increase it when a refresh method writes other rows: state that depends on commits of another version is rebuilt.
METHOD_VERSION = 1
ALL_ROWS = "all"


def replacement(method: str, columns: Iterable[str] | None) -> dict[str, Any]:
    """Return the entries of a commit's metadata that state what it replaces.

    Args:
        method: How the rows were determined, such as a refresh method.
        columns: Rows with the same values in these are replaced together; None if all rows are replaced.
    """
    replaces = ALL_ROWS if columns is None else [*columns]
    return {"replaces": replaces, "method": method, "method_version": METHOD_VERSION}


def bronze_metadata(
    keys: Iterable[str] | None, method: str = "merge", known: Mapping[str, object] | None = None
) -> str:
    """Return the JSON metadata of a commit of a Bronze table that replaces rows by ``keys``; known: other entries."""
    return json.dumps({**(known or {}), **replacement(method, keys), **fence.stamp()})


def reason_not_followed(commit: Mapping[str, Any], columns: Collection[str]) -> str | None:
    """Say why a commit cannot be followed by a reader that needs rows replaced by ``columns``; None if it can.

    commit: its metadata.
    """
    if (replaces := commit.get("replaces")) is None:
        return "does not say which rows it replaced as a whole"
    if commit.get("method_version") != METHOD_VERSION:
        return "was written by another version of its refresh method"
    if replaces == ALL_ROWS or {name.lower() for name in replaces} <= {name.lower() for name in columns}:
        return None
    return f"replaced rows by {', '.join(replaces)}, not by {', '.join(columns)}"
