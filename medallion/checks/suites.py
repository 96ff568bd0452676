"""All that is expected of a layer: what its tables declare, then what its suite expects across tables."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

from medallion.errors import MedallionError
from medallion.expect.vocabulary import Expectation
from medallion.model.registry import registry


class Declared(Protocol):
    """What a suite needs to know of a table."""

    @property
    def name(self) -> str:
        """Its name in SQL."""

    @property
    def layer(self) -> str:
        """Where it belongs."""

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Return the expectations that it declares itself."""


def suites(layer: str, tables: Iterable[Declared]) -> dict[str, tuple[Expectation, ...]]:
    """Return the expectations of every table of ``layer``, by table name, in the order of ``tables``.

    Raises:
        MedallionError: ``expectations/<layer>.py`` names a table that the layer does not declare.
    """
    across = suite_of(layer)
    return {t.name: (*t.expectations, *across.get(t.name, ())) for t in tables if t.layer == layer}


@cache
def suite_of(layer: str) -> Mapping[str, tuple[Expectation, ...]]:
    """Return the expectations of ``expectations/<layer>.py`` across tables; nothing where there is no such module."""
    if find_spec(f"expectations.{layer}") is None:
        return {}
    suite: Mapping[str, tuple[Expectation, ...]] = import_module(f"expectations.{layer}").SUITE
    declared = {table.name for table in registry(extras=True) if table.layer == layer}
    if unknown := sorted(set(suite) - declared):
        raise MedallionError(
            f"expectations/{layer}.py has expectations on {', '.join(unknown)}, which layer {layer} does not have:"
            f" name one of {', '.join(sorted(declared)) or 'none'}"
        )
    return suite
