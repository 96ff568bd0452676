"""Select tables as in dbt: ``gold_x`` or ``tag:x``, ``+gold_x`` with all upstream, ``gold_x+`` with all downstream."""

import re
from collections.abc import Iterable

from medallion.errors import UsageError
from medallion.model.registry import Registry

_TAG = "tag:"


def select_tables(tables: Registry, text: str) -> frozenset[str]:
    """Return the names that ``text`` selects: selectors separated by commas or spaces.

    Raises UsageError if ``text`` has no selector, and for an unknown table, with similar names.
    """
    selectors = [part for part in re.split(r"[,\s]+", text) if part]
    if not selectors:
        raise UsageError("nothing is selected: name tables, such as gold_inventory_risk or silver_products+")
    return frozenset(name for selector in selectors for name in _select(tables, selector))


def _select(tables: Registry, selector: str) -> set[str]:
    name = selector.removeprefix("+").removesuffix("+")
    names = _tagged(tables, name.removeprefix(_TAG)) if name.startswith(_TAG) else {tables[name].name}
    selected = {*names}
    if selector.startswith("+"):
        selected |= upstream_of(tables, names)
    if selector.endswith("+"):
        selected |= read_from(tables, names)
    return selected


def _tagged(tables: Registry, tag: str) -> set[str]:
    if names := {table.name for table in tables if tag in table.tags}:
        return names
    known = ", ".join(sorted({tag for table in tables for tag in table.tags}))
    raise UsageError(f"no table has the tag {tag[:80]!r}: {f'there are {known}' if known else 'none has any'}")


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
