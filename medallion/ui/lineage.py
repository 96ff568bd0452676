"""The layout of the lineage: tables as boxes in columns, each to the right of its inputs. A template draws it."""

from collections.abc import Mapping
from dataclasses import dataclass

from medallion.model.registry import Registry

HEIGHT, ROW, GAP, TOP = 26, 36, 48, 28  # pixels: of a box, from box to box, between columns, above boxes
LETTER, PADDING = 7.0, 16  # pixels: of the widest letter, and of free space beside the text


@dataclass(frozen=True)
class Box:
    """A table's place in the drawing, in pixels; classes: its CSS classes."""

    name: str
    x: int
    y: int
    width: int
    classes: str
    height: int = HEIGHT


@dataclass(frozen=True)
class Edge:
    """A line from a table to one that reads it."""

    start: Box
    end: Box

    @property
    def curve(self) -> str:
        """The path in SVG syntax."""
        a, b = self.start.x + self.start.width, self.end.x
        y, z = self.start.y + HEIGHT // 2, self.end.y + HEIGHT // 2
        middle = (a + b) // 2
        return f"M{a},{y} C{middle},{y} {middle},{z} {b},{z}"


@dataclass(frozen=True)
class Head:
    """The heading of a column."""

    text: str
    x: int


@dataclass(frozen=True)
class Graph:
    """The drawing. chosen: the table whose neighbours are highlighted."""

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    heads: tuple[Head, ...]
    width: int
    height: int
    chosen: str | None


def lineage_graph(tables: Registry, classes: Mapping[str, str], chosen: str | None = None) -> Graph:
    """Lay out ``tables``; layers do not share a column. classes: CSS classes by table, such as ``failed stale``."""
    columns: list[list[str]] = []
    heads = []
    for layer in tables.layers:
        first = len(columns)
        heads.append((layer, first))
        for node in tables.layer(layer):  # in dependency order
            depth = 1 + max((_column(columns, name) for name in node.inputs), default=-1)
            column = max(depth, first)
            while len(columns) <= column:
                columns.append([])
            columns[column].append(node.name)
    boxes: dict[str, Box] = {}
    lefts, left = [], 8
    for names in columns:
        width = round(max(len(name) for name in names) * LETTER) + PADDING
        for place, name in enumerate(names):
            boxes[name] = Box(name, left, TOP + place * ROW, width, classes.get(name, "not-checked"))
        lefts.append(left)
        left += width + GAP
    edges = tuple(Edge(boxes[name], boxes[node.name]) for node in tables for name in node.inputs)
    return Graph(
        tuple(boxes.values()),
        edges,
        tuple(Head(layer.capitalize(), lefts[column]) for layer, column in heads),
        left - GAP + 8,
        TOP + ROW * max(map(len, columns)),
        chosen,
    )


def _column(columns: list[list[str]], name: str) -> int:
    return next(place for place, names in enumerate(columns) if name in names)
