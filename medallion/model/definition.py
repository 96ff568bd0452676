"""What a table is computed by: its own query and refresh policy and, through what it reads, those of others."""

from collections.abc import Mapping
from hashlib import sha256

from medallion.model.table import ChangeLog, Feed, Table


def definition_keys(nodes: Mapping[str, Feed | ChangeLog | Table]) -> dict[str, str]:
    """By table, a key that changes when its query, keys, refresh policy or declared columns do, or those of a table
    that it is computed from.

    nodes: every table by name, each after its inputs.
    """
    keys: dict[str, str] = {}
    for name, node in nodes.items():
        if isinstance(node, Table):
            parts = [
                node.query,
                node.refresh,
                *node.keys,
                *(f"{read} {keys.get(read)}" for read in node.inputs),
            ]
        else:
            parts = [f"{column.name} {column.type} {column.required}" for column in node.columns]
            parts += node.keys
        keys[name] = sha256("\n".join(parts).encode()).hexdigest()[:16]
    return keys
