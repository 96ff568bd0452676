"""All that is expected of a layer: what its tables declare, then what its suite expects across tables."""

from collections.abc import Iterable
from typing import Protocol

from medallion.expect.vocabulary import NO_PERSONAL_COLUMNS, Expectation
from medallion.project import Project


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


def suites(project: Project, layer: str, tables: Iterable[Declared]) -> dict[str, tuple[Expectation, ...]]:
    """Return the expectations of every table of ``layer``, by table name, in the order of ``tables``.

    Raises:
        MedallionError: ``expectations/<layer>.py`` names a table that the layer does not declare.
    """
    across = project.suite(layer)
    declared = {t.name: (*t.expectations, *across.get(t.name, ())) for t in tables if t.layer == layer}
    # What lineage judges has been judged before the layer was refreshed.
    return {name: tuple(e for e in expected if e.kind != NO_PERSONAL_COLUMNS) for name, expected in declared.items()}
