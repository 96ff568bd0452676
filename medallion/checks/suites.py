"""All that is expected of a layer: what its tables declare, then what its suite promises across tables."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from expectations import bronze, gold, silver
from expectations.vocabulary import Expectation

_ACROSS: Mapping[str, Mapping[str, tuple[Expectation, ...]]] = {
    "bronze": bronze.SUITE,
    "silver": silver.SUITE,
    "gold": gold.SUITE,
}


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
        """What it promises about itself."""


def suites(layer: str, tables: Iterable[Declared]) -> dict[str, tuple[Expectation, ...]]:
    """The expectations of every table of ``layer``, by table name, in the order of ``tables``."""
    across = _ACROSS.get(layer, {})
    return {t.name: (*t.expectations, *across.get(t.name, ())) for t in tables if t.layer == layer}
