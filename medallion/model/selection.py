"""Choosing tables by name, as in dbt: ``gold_x``, ``+gold_x`` with all it reads, ``gold_x+`` with all that reads it."""

import re
from collections.abc import Iterable

from medallion.errors import UsageError
from medallion.model.registry import Registry


def select_tables(tables: Registry, text: str) -> frozenset[str]:
    """Return the names that ``text`` selects: selectors with commas or spaces between them.

    Raises UsageError for text that selects nothing, and for an unknown table, with names like it.
    """
    selectors = [part for part in re.split(r"[,\s]+", text) if part]
    if not selectors:
        raise UsageError("nothing is selected: name tables, such as gold_inventory_risk or silver_products+")
    return frozenset(name for selector in selectors for name in _select(tables, selector))


def _select(tables: Registry, selector: str) -> set[str]:
    name = selector.removeprefix("+").removesuffix("+")
    selected = {tables[name].name}
    if selector.startswith("+"):
        selected |= upstream_of(tables, {name})
    if selector.endswith("+"):
        selected |= read_from(tables, {name})
    return selected


def upstream_of(tables: Registry, names: Iterable[str]) -> set[str]:
    """Return ``names`` and every table that they are computed from."""
    reached = {*names}
    return reached.union(*(upstream_of(tables, tables[name].inputs) for name in reached))


def read_from(tables: Registry, names: set[str]) -> set[str]:
    """Return ``names`` and every table computed from them."""
    reached = set(names)
    for table in tables:  # each after its inputs
        if reached.intersection(table.inputs):
            reached.add(table.name)
    return reached
