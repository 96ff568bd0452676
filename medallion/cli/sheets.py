"""The sheets of status, tables and events: their columns, and which of them a narrow terminal leaves out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from medallion.cli.sheet import Column, Sheet
from medallion.errors import advice
from medallion.hours import hour_or_snapshot
from medallion.inspect.status import LakeStatus
from medallion.model.registry import Registry
from medallion.ops.event_schema import EventRow
from medallion.refresh.definitions import CHANGED

if TYPE_CHECKING:
    from rich.tree import Tree

STATUS_COLUMNS = (
    Column("table"),
    Column("rows"),
    Column("MB", rank=3),
    Column("files", rank=5),
    Column("version", rank=4),
    Column("published", rank=4),
    Column("last hour", rank=2),
    Column("age", rank=1),
    Column("check"),
)
TABLES_COLUMNS = (
    Column("table"),
    Column("schedule", rank=4),
    Column("age", rank=1),
    Column("stale"),
    Column("failures", rank=2),
    Column("last s", rank=2),
    Column("mean s", rank=3),
    Column("refresh method", note=True),
    Column("reads", note=True),
)
EVENTS_COLUMNS = (
    Column("ended (UTC)", rank=3),
    Column("hour"),
    Column("step"),
    Column("table"),
    Column("seconds"),
    Column("CPU s", rank=4),
    Column("rows in", rank=4),
    Column("rows out", rank=1),
    Column("MB out", rank=5),
    Column("status"),
    Column("method", rank=3),
    Column("note", note=True),
)


def status_sheet(status: LakeStatus) -> Sheet:
    """Lay out ``lake_status``: what is published, and the state of each table."""
    rows = [
        (
            row.table,
            row.rows,
            _round_to_unit(row.bytes, 1e6, 1),
            row.files,
            row.version,
            row.published,
            row.hour,
            _age(row.age_hours),
            row.check,
        )
        for row in status.tables
    ]
    return _with_age_by_clock(status, Sheet(STATUS_COLUMNS, rows, [*_headlines(status)]))


def _headlines(status: LakeStatus) -> Iterator[str]:
    yield f"lake {status.lake}"
    if release := status.release:
        published = f"{release.published_at:%Y-%m-%d %H:%M:%S} UTC"
        again = "" if release.restores is None else f" (release {release.restores} again, by a roll back)"
        yield f"release {release.release_id} of {hour_or_snapshot(release.hour)}{again}, published {published}"
        applied = max((row.hour or "" for row in status.tables if not row.inputs), default="")
        if status.unfinished:
            yield status.unfinished
        elif applied > (release.hour or "") and not status.writer:
            yield f"hour {applied} is in Bronze, and readers do not have it"
    else:
        yield "nothing published, run medallion load"
    if status.writer:
        yield f"being written by {status.writer}"
    if restated := status.restatement:
        yield f"{restated.headline}: publishing waits"
    yield from filter(None, (status.late, status.left or _pending(status), *status.refused))
    if changed := [row.table for row in status.tables if row.definition_changed]:
        yield f"{CHANGED}: {', '.join(changed)}; {advice.reprocess()}"
    if status.red:
        yield status.red
    elif red := [row.table for row in status.tables if row.check == "failed"]:
        yield f"red: {', '.join(red)} failed the last check; see medallion expectations --broken"


def _pending(status: LakeStatus) -> str | None:
    """Say which hours are pending, and how to apply them unless something else comes first; None if none are."""
    if status.pending is None:
        return "the source could not be listed: which hours are pending is not known"
    hours = [hour for hour in status.pending if status.restatement is None or hour not in status.restatement.hours]
    if not hours:
        return None
    is_free = not (status.red or status.unfinished or status.writer or status.restatement)
    if len(hours) == 1:
        return f"hour {hours[0]} is pending" + (": medallion refresh applies it" if is_free else "")
    how = f": medallion refresh --to-hour {hours[-1]} applies them" if is_free else ""
    return f"{len(hours)} hours ({hours[0]} to {hours[-1]}) are pending{how}"


def tables_sheet(status: LakeStatus) -> Sheet:
    """Lay out how each table of ``lake_status`` is refreshed."""
    rows = [
        (
            row.table,
            row.schedule,
            _age(row.age_hours),
            "yes" if row.stale else "no",
            row.failures,
            _round_to_unit(row.last_seconds, 1, 2),
            _round_to_unit(row.mean_seconds, 1, 2),
            f"{row.mode}; {CHANGED}" if row.definition_changed else row.mode,
            ", ".join(row.inputs) or "its change files",
        )
        for row in status.tables
    ]
    return _with_age_by_clock(status, Sheet(TABLES_COLUMNS, rows, [f"lake {status.lake}"]))


def events_sheet(rows: Sequence[EventRow]) -> Sheet:
    """Lay out rows of the event log; the error or note of a step is shown in full."""
    laid_out = [
        (
            f"{row.event_timestamp:%m-%d %H:%M:%S}",
            row.hour,
            row.event_type,
            row.table_name or row.layer,
            _round_to_unit(row.seconds, 1, 2),
            _round_to_unit(row.cpu_seconds, 1, 2),
            row.rows_in,
            row.rows_out,
            _round_to_unit(row.bytes_out, 1e6, 2),
            row.status,
            row.details.get("method"),
            row.details.get("error") or row.details.get("note"),
        )
        for row in rows
    ]
    return Sheet(EVENTS_COLUMNS, laid_out)


def lineage_tree(tables: Registry, root: str) -> dict[str, Any]:
    """Return the lineage of a table down to Bronze: its name, its refresh method, and the same of each input."""
    table = tables[root]
    inputs = [lineage_tree(tables, name) for name in table.inputs]
    return {"table": table.name, "mode": table.refresh_method, "inputs": inputs}


def draw_tree(lineage: Mapping[str, Any]) -> "Tree":
    """Draw a ``lineage_tree``; the inputs of a table that occurs twice are drawn only once."""
    from rich.tree import Tree

    seen: set[str] = set()

    def grow(branch: Tree, node: Mapping[str, Any]) -> None:
        repeated = node["table"] in seen
        grown = branch.add(f"{node['table']} [dim]{node['mode']}[/]{' [dim](see above)[/]' if repeated else ''}")
        if not repeated:
            seen.add(node["table"])
            for child in node["inputs"]:
                grow(grown, child)

    whole = Tree("", hide_root=True)
    grow(whole, lineage)
    return whole


def _with_age_by_clock(status: LakeStatus, sheet: Sheet) -> Sheet:
    """Leave out the age for a replayed history, where it only says when the history was recorded."""
    if status.goes_with_clock:
        return sheet
    shown = [place for place, column in enumerate(sheet.columns) if column.name != "age"]
    rows = [[row[place] for place in shown] for row in sheet.rows]
    return replace(sheet, columns=[sheet.columns[place] for place in shown], rows=rows)


def _age(hours: float | None) -> str | None:
    return None if hours is None else f"{hours:,.0f} h"


def _round_to_unit(value: float | None, unit: float, digits: int) -> Decimal | None:
    return None if value is None else round(Decimal(value) / Decimal(unit), digits)
