"""The tables of this repository's own project, and graphs of tests with its layers."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from medallion.model.registry import Registry
from medallion.model.registry import build as build_of
from medallion.model.table import Node
from medallion.project import project_at

PROJECT = Path(__file__).resolve().parents[1]
SHOP = project_at(PROJECT)
registry = SHOP.registry


def build(tables: Iterable[Node]) -> Registry:
    """Build the registry of ``tables``, of the shop's layers."""
    return build_of(tables, SHOP.layers)


def graph(tables: Mapping[str, Node]) -> Registry:
    """The registry of ``tables``, which stand in order."""
    return Registry(tables, SHOP.layers)
