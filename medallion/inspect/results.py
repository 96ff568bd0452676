"""The contents of a release for readers interested in the data and not in the pipeline: series to draw, and rows.

A version of a table never changes, so what was read from it is cached.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from medallion.csv_cells import plain_cells
from medallion.errors import MedallionError, UsageError
from medallion.hours import ONE_HOUR, parse_hour
from medallion.model.chart import Chart
from medallion.model.registry import Registry
from medallion.model.table import Node, Table
from medallion.ops.releases import Release
from medallion.storage.duckdb_views import open_sealed_views
from medallion.storage.lake import Lake
from medallion.storage.named_versions import NamedVersion, open_named

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHOWN_ROWS = 10
EXTREMES = 6  # bars at either end
MAX_POINTS = 400  # the last points of a line
CSV_BATCH = 5_000  # rows
_ANY_TIME = datetime.min.replace(tzinfo=UTC)
REMEMBERED = 256  # number of cached series, and of cached samples


@dataclass(frozen=True)
class Sample:
    """The first rows of a table at a release, with the names and types of its columns."""

    columns: Sequence[str]
    types: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Series:
    """The data of a chart: the name of each series, and points with x and one value per series.

    partial: positions of points in a line whose period may be covered only in part: the first one, and one that had not
    ended. total: the sum of the first series over all points, including those that are not drawn.
    """

    names: Sequence[str]
    points: Sequence[tuple[Any, ...]]
    partial: frozenset[int] = frozenset()
    total: float = 0.0

    @property
    def whole_points(self) -> list[tuple[Any, ...]]:
        """The points whose periods are complete."""
        return [point for place, point in enumerate(self.points) if place not in self.partial]


@dataclass(frozen=True)
class TableResult:
    """A published table: its first rows, and its series if it has a chart. error: why it cannot be read."""

    table: Table
    sample: Sample | None = None
    series: Series | None = None
    error: str | None = None


def published_tables(release: Release, tables: Registry) -> list[Table]:
    """Return the tables of ``release`` in the result layers: those with line charts first, without a chart last."""
    published = [
        node
        for node in tables
        if isinstance(node, Table) and node.layer in tables.result_layers and node.name in release.versions
    ]
    order = {"line": 0, "bars": 1, "extremes": 2}
    published.sort(key=lambda table: order[table.chart.kind] if table.chart else len(order))
    return published


def read_result(lake: Lake, release: Release, table: Table) -> TableResult:
    """Read a published table; if it cannot be read, the result contains the error."""
    try:
        sample = read_sample(lake, release, table.name, SHOWN_ROWS, order_of(table))
        return TableResult(table, sample, read_series(lake, release, table) if table.chart else None)
    except MedallionError as error:
        return TableResult(table, error=str(error))


def read_series(lake: Lake, release: Release, table: Table) -> Series:
    """Return the data of the chart of ``table`` at a release. Raises as read_sample does."""
    assert table.chart is not None, "only a table with a chart has series"
    series = _series_at(lake, _version(release, table.name), table.chart)
    if table.chart.kind != "line":
        return series
    ends_at = parse_hour(release.hour) + ONE_HOUR if release.hour else None
    return replace(series, partial=_partial_periods([point[0] for point in series.points], ends_at))


def read_sample(lake: Lake, release: Release, table: str, limit: int, order: Sequence[str] = ()) -> Sample:
    """Return the first ``limit`` rows of ``table``. Raises MedallionError if it cannot be read at its version.

    order: terms of ``order_of``.
    """
    return _sample_at(lake, _version(release, table), limit, tuple(order))


@lru_cache(REMEMBERED)
def _sample_at(lake: Lake, version: NamedVersion, limit: int, order: tuple[str, ...]) -> Sample:
    with open_sealed_views(lake, {version.table: open_named(lake, version)}) as connection:
        return _sample(connection, version.table, limit, order)


@lru_cache(REMEMBERED)
def _series_at(lake: Lake, version: NamedVersion, chart: Chart) -> Series:
    with open_sealed_views(lake, {version.table: open_named(lake, version)}) as connection:
        return _series(connection, version.table, chart)


def write_csv(lake: Lake, release: Release, table: str) -> Iterator[str]:
    """Return all of ``table`` as CSV, in chunks. Raises as read_sample does, before the first chunk."""
    connection_of = open_sealed_views(lake, {table: open_named(lake, _version(release, table))})

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


def _version(release: Release, table: str) -> NamedVersion:
    version = release.version_of(table)
    if version is None:
        raise UsageError(f"release {release.release_id} has no table {table[:80]}")
    # With a table id the version is the same in every release, so the cache key must not contain the publishing time.
    return version if version.table_id is None else replace(version, published_at=_ANY_TIME)


def _sample(connection: "DuckDBPyConnection", table: str, limit: int, order: Sequence[str]) -> Sample:
    described = connection.execute(f'SELECT * FROM "{table}" LIMIT 0').description or ()  # noqa: S608 (a declared name)
    kinds = {name: str(kind) for name, kind, *_ in described}
    terms = ", ".join(_order_term(term, kinds) for term in order)
    ordered = f"ORDER BY {terms}" if terms else ""
    cursor = connection.execute(f'SELECT * FROM "{table}" {ordered} LIMIT {int(limit)}')  # noqa: S608 (declared names)
    return Sample([*kinds], [*kinds.values()], cursor.fetchall())


def _order_term(term: str, kinds: Mapping[str, str]) -> str:
    column = term.lstrip("+-")
    newest_first = term == column and kinds.get(column, "").startswith(("DATE", "TIMESTAMP"))
    return f'"{column}" {"DESC" if newest_first or term.startswith("-") else "ASC"} NULLS LAST'


def order_of(node: Node) -> tuple[str, ...]:
    """Return by what the rows of a table are shown: columns, with + if smallest first, - if largest first.

    A column without a sign is in ascending order, or newest first if it has days or times.
    """
    chart = node.chart if isinstance(node, Table) else None
    if chart is not None and chart.first:
        return (chart.first if chart.first.startswith("-") else f"+{chart.first}",)
    first = [f"-{chart.x}"] if chart is not None and chart.kind == "line" else []
    return (*first, *node.keys)


def _series(connection: "DuckDBPyConnection", table: str, chart: Chart) -> Series:
    values = ", ".join(f'CAST(SUM("{column}") AS DOUBLE)' for column in chart.y) or "CAST(COUNT(*) AS DOUBLE)"
    grouped = f'SELECT "{chart.x}", {values} FROM "{table}" GROUP BY 1'  # noqa: S608 (declared names)
    rows = connection.execute(grouped).fetchall()
    total = sum(row[1] or 0.0 for row in rows)
    points = [tuple(row) for row in _points_to_draw(rows, chart)]
    return Series(chart.y or ("rows",), points, total=total)


def _partial_periods(starts: Sequence[Any], ends_at: datetime | None) -> frozenset[int]:
    """Return the positions of periods that the data may cover only in part.

    The history may begin within the first period. The last period is complete only if it is known to have ended by
    ``ends_at``, the time up to which changes are included.
    """
    if not starts:
        return frozenset()
    last = len(starts) - 1
    moments = [_moment(start) for start in starts[-2:]]
    if ends_at is not None and len(moments) == 2 and moments[0] and moments[1]:
        has_ended = moments[1] + (moments[1] - moments[0]) <= ends_at
        return frozenset({0} if has_ended else {0, last})
    return frozenset({0, last})


def _moment(value: Any) -> datetime | None:
    if not isinstance(value, date):
        return None
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)  # noqa: DTZ001
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _points_to_draw(rows: list[Any], chart: Chart) -> list[Any]:
    """Return the points to draw, in order: by x for a line, else the largest first."""
    if chart.kind == "line":
        return sorted((row for row in rows if row[0] is not None), key=lambda row: row[0])[-MAX_POINTS:]
    rows.sort(key=lambda row: -(row[1] or 0.0))
    if chart.kind == "extremes" and len(rows) > 2 * EXTREMES:
        return rows[:EXTREMES] + rows[-EXTREMES:]
    return rows[: 4 * EXTREMES]
