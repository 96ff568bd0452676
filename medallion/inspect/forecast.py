"""Forecast what the refresh of an hour would do with each table, from its change files and from earlier refreshes.

The forecast uses only events from before the hour was refreshed, so afterwards it can be compared with the outcome. How
large tables are is read from the lake as it is now.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from medallion.errors import MedallionError, UsageError
from medallion.ingest import ledger
from medallion.ingest.listing import change_files
from medallion.ingest.put_together import land_files
from medallion.ingest.source import Source, open_source
from medallion.model.methods import Additive, Kept
from medallion.model.refresh_lock import method_kind
from medallion.model.refresh_method import RefreshMethod
from medallion.model.registry import Registry
from medallion.model.table import ChangeLog, Node, Table
from medallion.ops import event_log
from medallion.ops.event_schema import DID_WORK, EventRow
from medallion.refresh.additive import SMALL_INPUTS, is_worth_state
from medallion.refresh.commits import is_written_by_difference
from medallion.refresh.cost import Costs, costs_of
from medallion.settings import Settings
from medallion.storage.lake import Lake, TableState

SAMPLES = 5  # number of recent refreshes whose median is the forecast


@dataclass(frozen=True)
class Forecast:
    """What one refresh of a table is expected to do, and what it did.

    lines: number of lines in the change files, by feed that the table is computed from. method: the expected refresh
    method. reason: why it is not the table's own method. rows, seconds: rows expected to be written, and expected
    duration; None if no such refresh was seen before. ran, ran_rows, ran_seconds: the outcome; None until the hour is
    refreshed.
    """

    table: str
    lines: Mapping[str, int]
    method: str
    reason: str | None
    rows: int | None
    seconds: float | None
    ran: str | None = None
    ran_rows: int | None = None
    ran_seconds: float | None = None


def forecast_hour(
    lake: Lake, tables: Registry, settings: Settings, hour: str | None = None
) -> tuple[str, list[Forecast]]:
    """Forecast the incremental refresh of ``hour``, by default the next hour that the source has.

    Returns:
        The hour, and a forecast for each computed table, in dependency order.

    Raises:
        HourNotAvailable: The source does not have the hour.
        UsageError: The source has no hour that the lake does not have yet.
    """
    source, topics = open_source(settings), {feed.topic: feed.name for feed in tables.feeds}
    listing = change_files(source, tables.feeds)
    applied = ledger.applied_hour(lake, tables)
    if hour is None:
        hour = next((source_hour for source_hour in listing.hours if applied is None or source_hour > applied), None)
        if hour is None:
            raise UsageError("the source has no hour that the lake does not have: name one with --hour")
    listing.require_hour(hour)
    listing.require_understood(hour)
    lines = {topics[topic]: _count_lines(source, names) for topic, names in listing.hours[hour].items()}
    events = event_log.read(lake, event_log.RECENT, event_type="refresh")
    started = min((row.started_at for row in events if row.hour == hour), default=None)
    before = [row for row in events if started is None or row.event_timestamp < started]
    outcomes = {row.table_name: row for row in events if row.hour == hour and row.table_name}
    states = _states(lake, tables)
    sizes = {name: state.bytes for name, state in states.items()}
    small = {name for name, state in states.items() if is_written_by_difference(state)}
    return hour, _forecasts(tables, lines, before, outcomes, sizes, small)


def as_expected(forecasts: Iterable[Forecast]) -> tuple[int, int]:
    """Return how many refreshed tables used the expected method, and how many tables were refreshed."""
    done = [forecast for forecast in forecasts if forecast.ran is not None]
    return sum(forecast.ran == forecast.method for forecast in done), len(done)


def _forecasts(
    tables: Registry,
    lines: Mapping[str, int],
    before: Sequence[EventRow],
    outcomes: Mapping[str, EventRow],
    sizes: Mapping[str, int],
    small: Collection[str],
) -> list[Forecast]:
    costs, reached = costs_of(before), dict[str, dict[str, int]]()
    forecasts = []
    for node in tables:
        if not isinstance(node, Table):
            fed = node.of if isinstance(node, ChangeLog) else node.name
            reached[node.name] = {fed: lines[fed]} if lines.get(fed) else {}
            continue
        reached[node.name] = {feed: count for name in node.inputs for feed, count in reached[name].items()}
        samples = [row for row in before if row.table_name == node.name and row.status in DID_WORK]
        method, reason = _expected_method(node, reached[node.name], samples, costs, sizes, node.name in small)
        alike = [row for row in samples if row.details.get("method") == method][-SAMPLES:]
        forecasts.append(
            Forecast(
                node.name,
                reached[node.name],
                method,
                reason,
                0 if method == RefreshMethod.UNCHANGED else _middle(row.rows_out for row in alike),
                None if not alike else median(row.seconds for row in alike),
                *_outcome(outcomes.get(node.name)),
            )
        )
    return forecasts


def _expected_method(
    table: Table,
    lines: Mapping[str, int],
    samples: Sequence[EventRow],
    costs: Mapping[str, Costs],
    sizes: Mapping[str, int],
    is_small: bool,
) -> tuple[str, str | None]:
    if not lines:
        return RefreshMethod.UNCHANGED, "none of the feeds that it is computed from has a line"
    own = method_kind(table.method)
    changed = [row.details["changed"] for row in samples if row.details.get("changed") is not None][-SAMPLES:]
    known = costs.get(table.name)
    if table.refresh == "auto" and changed and known is not None and own != RefreshMethod.FULL_RECOMPUTE:
        size = int(median(changed))
        change = f"a change as usual, of {size:,}"
        tried = known.reason_to_try_full(size, change, may_retry=is_small)
        if reason := tried or known.reason_to_recompute(size, change):
            return RefreshMethod.FULL_RECOMPUTE, reason
    known_sizes = {name: sizes[name] for name in table.inputs if name in sizes}
    if known_sizes and _is_aggregate(table) and not is_worth_state(table, known_sizes):
        return RefreshMethod.FULL_RECOMPUTE, SMALL_INPUTS
    return own, None


def _is_aggregate(node: Node) -> bool:
    return isinstance(node, Table) and isinstance(node.method, Additive | Kept)


def _states(lake: Lake, tables: Registry) -> dict[str, TableState]:
    """Return each table that is judged by cost, and each input of an aggregate, if it exists and can be read."""
    states = {}
    names = {name for table in tables if _is_aggregate(table) for name in table.inputs}
    names |= {table.name for table in tables if isinstance(table, Table) and table.refresh == "auto"}
    for name in names:
        try:
            state = lake.state(name)
        except MedallionError:  # status names it
            continue
        if state is not None:
            states[name] = state
    return states


def _outcome(row: EventRow | None) -> tuple[str | None, int | None, float | None]:
    return (None, None, None) if row is None else (row.details.get("method"), row.rows_out, row.seconds)


def _middle(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return int(median(known)) if known else None


def _count_lines(source: Source, names: Sequence[str]) -> int:
    """Count the lines of an hour of a feed as it would be landed, whatever the compression and format of its files."""
    with TemporaryDirectory(prefix="medallion-") as folder:
        return sum(part.lines for part in land_files(source, names, Path(folder, "hour.json")).parts)
