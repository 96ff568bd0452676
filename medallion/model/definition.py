"""The definition of a table: its own query and refresh policy and, through its inputs, those of other tables."""

from collections.abc import Mapping
from hashlib import sha256

from medallion.model.table import Node, Table


def definition_keys(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return, by table, a key that changes whenever the definition of the table changes.

    The definition comprises query, keys, refresh policy and declared columns, of the table and of all tables that it is
    computed from. nodes: every table by name, each after its inputs.
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
