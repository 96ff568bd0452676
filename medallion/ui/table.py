"""The page of one table: what it is, what it is made from, its refreshes and checks, and its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING

from medallion.errors import MedallionError, UsageError
from medallion.html.templating import Grid, Link, Long, Plot, RunLink, Status, render
from medallion.inspect.check_history import Trend, trends
from medallion.inspect.column_descriptions import column_descriptions
from medallion.inspect.column_lineage import ColumnOf, column_lineage
from medallion.inspect.personal_columns import personal_columns
from medallion.inspect.results import Sample, order_of, read_sample
from medallion.inspect.table_history import TableRefresh, describe_recent, table_history
from medallion.model.refresh_lock import NAME, Entry, read_lock
from medallion.model.registry import Registry
from medallion.model.table import Feed, Node, Table
from medallion.ops import releases
from medallion.project import find_project
from medallion.refresh.definitions import CHANGED, is_definition_changed
from medallion.storage.lake import Lake
from medallion.ui.expectations import draw_checks
from medallion.ui.plots import plot_over_hours
from medallion.ui.results import sample_grid

if TYPE_CHECKING:
    from deltalake import DeltaTable

SHOWN_ROWS = 50
SHOWN_RELEASES = 30
SHOWN_REFRESHES = 30


@dataclass(frozen=True)
class ColumnPanel:
    """The meaning of a column, and its upstream and downstream columns, the nearest first."""

    name: str
    description: str
    upstream: Sequence[Link]
    downstream: Sequence[Link]


def table_page(lake: Lake, tables: Registry, name: str, column: str = "", currency: str = "USD") -> str:
    """Render the page of table ``name``. column: show its lineage. Raises UsageError for an unknown table or column."""
    node = tables[name]
    release = releases.latest(lake)
    sample, error = None, None
    if release is not None and name in release.versions:
        try:
            order = (
                order_of(node) if node.layer in tables.result_layers else ()
            )  # others may have too many rows to sort
            sample = read_sample(lake, release, name, SHOWN_ROWS, order)
        except MedallionError as reason:
            error = str(reason)
    history, judged = table_history(lake, name), trends(lake, name)
    return render(
        "table.html",
        title=name,
        page="",
        node=node,
        doc=node.doc,
        query=dedent(node.query).strip() if isinstance(node, Table) else None,
        explained=_explained(tables, name),
        readers=[other.name for other in tables if name in other.inputs],
        columns=_columns(node, sample, tables),
        column=_panel(tables, ColumnOf(name, column)) if column else None,
        last=history[-1] if history else None,
        recent=describe_recent(history),
        changed=CHANGED if is_definition_changed(lake, node, _opened(lake, name)) else None,
        plots=_plots(history),
        refreshes=_refreshes(history),
        check=judged[0].last if judged else None,  # the worst comes first
        broken=[trend.expectation for trend in judged if trend.last.status == "failed"],
        checks=_checks(judged),
        releases=_releases(lake, name),
        rows=sample_grid(sample, release, node, currency) if sample and release else None,
        error=error,
    )


def _explained(tables: Registry, name: str) -> Entry | None:
    """Return why the table is refreshed as it is; None if refresh.lock has no entry for its current definition."""
    try:
        return read_lock(find_project().root / NAME).entry_of(tables, name)
    except MedallionError:
        return None


def _opened(lake: Lake, name: str) -> "DeltaTable | None":
    """Open the current version of the table; None if it was never written, or cannot be read."""
    try:
        return lake.open(lake.path(name))
    except MedallionError:
        return None


def _columns(node: Node, sample: Sample | None, tables: Registry) -> Grid:
    if sample is not None:
        types = dict(zip(sample.columns, sample.types, strict=True))
    elif isinstance(node, Table):
        types = {key.column: "" for key in column_lineage(tables).sources if key.table == node.name}
    else:
        types = {column.name: column.type for column in node.columns}
    lineage, personal, described = column_lineage(tables), personal_columns(tables), column_descriptions(tables)
    rows = []
    for name, kind in types.items():
        column = ColumnOf(node.name, name.lower())
        origin = ", ".join(f"{source.table}.{source.column}" for source in sorted(lineage.sources.get(column, ())))
        marks = [mark for mark, holds in (("key", name in node.keys), ("personal", column in personal)) if holds]
        meaning = Long(described.get(column, ""))
        rows.append((_column_link(ColumnOf(node.name, name)), kind, ", ".join(marks), meaning, Long(origin)))
    return Grid(f"{len(rows)} columns of {node.name}", ("column", "type", "is", "meaning", "made from"), rows)


def _column_link(column: ColumnOf, *, whole: bool = False) -> Link:
    text = f"{column.table}.{column.column}" if whole else column.column
    return Link(text, f"table?name={column.table}&column={column.column}#column")


def _panel(tables: Registry, column: ColumnOf) -> ColumnPanel:
    lineage = column_lineage(tables)
    chosen = ColumnOf(column.table, column.column.lower())
    upstream, downstream = lineage.upstream(chosen), lineage.downstream(chosen)
    if not (chosen in lineage.sources or downstream or isinstance(tables[column.table], Feed)):
        raise UsageError(f"{column.table} has no column {column.column[:80]!r}")
    return ColumnPanel(
        column.column,
        column_descriptions(tables).get(chosen, ""),
        [_column_link(source, whole=True) for source in upstream],
        [_column_link(reader, whole=True) for reader in downstream],
    )


def _plots(history: Sequence[TableRefresh]) -> list[Plot]:
    """Plot rows, bytes and seconds by hour. The snapshot is left out, because it is not an hour."""
    hours = [refresh for refresh in history if refresh.hour != "snapshot" and refresh.status != "failed"]
    if len(hours) < 2:
        return []
    names = [refresh.hour for refresh in hours]
    return [
        plot_over_hours("rows of the table", names, [refresh.rows for refresh in hours]),
        plot_over_hours("MB written", names, [_megabytes(refresh.bytes_written) for refresh in hours]),
        plot_over_hours("seconds", names, [refresh.seconds for refresh in hours]),
    ]


def _megabytes(size: int | None) -> float | None:
    return None if size is None else size / 1e6


def _refreshes(history: Sequence[TableRefresh]) -> Grid:
    rows = [
        (
            *(
                row.hour,
                Status(row.status),
                row.strategy,
                row.method,
                Long(row.reason),
                row.changed,
                row.rows,
            ),
            *("" if row.bytes_written is None else f"{row.bytes_written / 1e6:.2f}", f"{row.seconds:.2f}"),
            RunLink(row.run_id),
        )
        for row in reversed(history[-SHOWN_REFRESHES:])
    ]
    figures = ("rows written", "rows", "MB written", "seconds")
    names = ("hour", "status", "strategy used", "method", "reason", *figures, "run")
    return Grid("The last refreshes, newest first", names, rows, {5, 6, 7, 8})


def _checks(judged: Sequence[Trend]) -> Grid:
    rows = [
        (
            *(Status(trend.last.status), draw_checks(trend), Long(trend.expectation)),
            *(trend.severity, trend.last.failed_records),
        )
        for trend in judged
    ]
    names = ("last check", "last checks", "expectation", "severity", "failed records")
    return Grid(f"{len(rows)} expectations, failed ones first", names, rows, {4})


def _releases(lake: Lake, name: str) -> Grid:
    releases_with_table = [release for release in releases.read_all(lake) if name in release.versions]
    rows = [
        (
            *(str(release.release_id), release.hour or "snapshot", release.published_at, release.strategy),
            *(str(release.versions[name]), release.row_counts.get(name)),
        )
        for release in reversed(releases_with_table[-SHOWN_RELEASES:])
    ]
    names = ("release", "hour", "published (UTC)", "strategy of the run", "version", "rows")
    return Grid("Releases that name it, newest first", names, rows, {0, 4, 5})
