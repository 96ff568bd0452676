"""What the newest release holds, for who wants to see the product and not the pipeline: series to draw, and rows."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medallion.csv_cells import plain_cells
from medallion.errors import MedallionError, UsageError
from medallion.model.chart import Chart
from medallion.model.registry import Registry
from medallion.model.table import Table
from medallion.ops.releases import Release
from medallion.storage.duckdb_views import open_sealed_views
from medallion.storage.lake import Lake
from medallion.storage.named_versions import open_named

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHOWN_ROWS = 10
EXTREMES = 6  # bars from either end
MAX_POINTS = 400  # along a line, the last ones
CSV_BATCH = 5_000  # rows


@dataclass(frozen=True)
class Sample:
    """The first rows of a table at a release, with the names and types of its columns."""

    columns: Sequence[str]
    types: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Series:
    """What a chart draws: the name of each series, and points of x and a value per series."""

    names: Sequence[str]
    points: Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class TableResult:
    """A published table: its first rows, and its series where it has a chart. error: why it cannot be read."""

    table: Table
    sample: Sample | None = None
    series: Series | None = None
    error: str | None = None


def read_results(lake: Lake, release: Release, tables: Registry) -> list[TableResult]:
    """Every table from Gold on that ``release`` names, lines first, those without a chart last."""
    published = [
        node
        for node in tables
        if isinstance(node, Table) and node.layer in ("gold", "platinum") and node.name in release.versions
    ]
    order = {"line": 0, "bars": 1, "extremes": 2}
    published.sort(key=lambda table: order[table.chart.kind] if table.chart else len(order))
    return [_read_result(lake, release, table) for table in published]


def read_sample(lake: Lake, release: Release, table: str, limit: int, order: str = "") -> Sample:
    """The first ``limit`` rows of ``table``. Raises MedallionError when it cannot be read at its version."""
    with _open_table(lake, release, table) as connection:
        return _sample(connection, table, limit, order)


def write_csv(lake: Lake, release: Release, table: str) -> Iterator[str]:
    """The whole of ``table`` as CSV, in pieces. Raises as read_sample, before the first piece."""
    connection_of = _open_table(lake, release, table)

    def pieces() -> Iterator[str]:
        with connection_of as connection:
            cursor = connection.execute(f'SELECT * FROM "{table}"')  # noqa: S608 (a declared name)
            rows: Sequence[Sequence[Any]] = [[name for name, *_ in cursor.description or ()]]
            while rows:
                piece = io.StringIO()
                csv.writer(piece).writerows(map(plain_cells, rows))
                yield piece.getvalue()
                rows = cursor.fetchmany(CSV_BATCH)

    return pieces()


def _open_table(lake: Lake, release: Release, table: str) -> Any:
    version = release.version_of(table)
    if version is None:
        raise UsageError(f"release {release.release_id} has no table {table[:80]}")
    return open_sealed_views(lake, {table: open_named(lake, version)})


def _read_result(lake: Lake, release: Release, table: Table) -> TableResult:
    try:
        with _open_table(lake, release, table.name) as connection:
            sample = _sample(connection, table.name, SHOWN_ROWS, _order(table))
            return TableResult(table, sample, _series(connection, table) if table.chart else None)
    except MedallionError as error:
        return TableResult(table, error=str(error))


def _sample(connection: "DuckDBPyConnection", table: str, limit: int, order: str) -> Sample:
    cursor = connection.execute(f'SELECT * FROM "{table}" {order} LIMIT {int(limit)}')  # noqa: S608 (declared names)
    described = [(name, str(kind)) for name, kind, *_ in cursor.description or ()]
    return Sample([name for name, _ in described], [kind for _, kind in described], cursor.fetchall())


def _order(table: Table) -> str:
    chart = table.chart
    if chart is not None and chart.first:
        column = chart.first.removeprefix("-")
        return f'ORDER BY "{column}" {"DESC" if chart.first.startswith("-") else ""} NULLS LAST'
    first = [f'"{chart.x}" DESC'] if chart is not None and chart.kind == "line" else []
    return "ORDER BY " + ", ".join([*first, *(f'"{key}"' for key in table.keys)])


def _series(connection: "DuckDBPyConnection", table: Table) -> Series:
    chart = table.chart
    assert chart is not None, "only a table with a chart has series"
    values = ", ".join(f'CAST(SUM("{column}") AS DOUBLE)' for column in chart.y) or "CAST(COUNT(*) AS DOUBLE)"
    grouped = f'SELECT "{chart.x}", {values} FROM "{table.name}" GROUP BY 1'  # noqa: S608 (declared names)
    names = chart.y or ("rows",)
    return Series(names, [tuple(row) for row in _points_to_draw(connection.execute(grouped).fetchall(), chart)])


def _points_to_draw(rows: list[Any], chart: Chart) -> list[Any]:
    """The points that are drawn, in their order: along x, or the largest first."""
    if chart.kind == "line":
        return sorted((row for row in rows if row[0] is not None), key=lambda row: row[0])[-MAX_POINTS:]
    rows.sort(key=lambda row: -(row[1] or 0.0))
    if chart.kind == "extremes" and len(rows) > 2 * EXTREMES:
        return rows[:EXTREMES] + rows[-EXTREMES:]
    return rows[: 4 * EXTREMES]
