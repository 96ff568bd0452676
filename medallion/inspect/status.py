"""The current state of the lake, read from its logs alone: it needs no Spark session and takes about a second."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from statistics import mean

from medallion.errors import advice
from medallion.hours import ONE_HOUR, parse_hour
from medallion.ingest import ledger
from medallion.ingest.late_files import late_warning, read_late
from medallion.ingest.never_applied import describe, read_never_applied
from medallion.ingest.restatement import Restatement, read_restatement
from medallion.ingest.unfinished_erasure import describe_unfinished_erasure
from medallion.ingest.unpublished import find_unpublished
from medallion.inspect.hour_history import goes_with_clock
from medallion.model.table import Node, Table
from medallion.ops import event_log, releases
from medallion.ops.event_schema import DID_WORK, EventRow
from medallion.ops.lake_tables import tables_of
from medallion.ops.writer_lock import current_writer
from medallion.refresh.definitions import is_definition_changed
from medallion.settings import STALE_HOURS, Settings
from medallion.storage import files
from medallion.storage.foreign_commits import provenance
from medallion.storage.lake import Lake, TableState, hour_in

BETWEEN_TASKS = timedelta(minutes=10)
MEAN_OF = 24  # number of refreshes of a table over which its mean seconds are computed


@dataclass(frozen=True)
class TableStatus:
    """The status of one table.

    rows, files, bytes, version: those of its newest commit. published: the published version. hour: the last hour that
    it includes; None for the snapshot alone. age_hours: how long ago that hour ended. stale: whether that is too long
    ago. check: the status of its last check. failures: number of failed steps since its last success. mode: its refresh
    method. definition_changed: whether its rows were computed by a query other than the declared one. last_seconds:
    duration of its last refresh. mean_seconds: mean over the last MEAN_OF refreshes. Checks, failures and seconds are
    those of the 7 days before the newest event.
    """

    table: str
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    version: int | None = None
    published: int | None = None
    hour: str | None = None
    age_hours: float | None = None
    stale: bool = False
    check: str = "not checked"
    failures: int = 0
    mode: str = ""
    inputs: Sequence[str] = ()
    schedule: str = "hourly"
    definition_changed: bool = False
    last_seconds: float | None = None
    mean_seconds: float | None = None


@dataclass(frozen=True)
class LakeStatus:
    """The status of the lake.

    release: the newest release; None before the first. writer, restatement: the current writer and restatement. late:
    which files arrived after their hour was applied, and the command to run. left: which hours of the source the
    schedule leaves to a person. unfinished: which hour is in Bronze and not published, though nobody is at work, and
    the command to run. refused: a line for each step of Bronze that failed and has not succeeded since. red: which hour
    is red, why, and how to recover. pending: the hours that the source has and the lake lacks, which are no problem;
    None if the source could not be listed, empty if nobody asked it. goes_with_clock: whether hours are refreshed as
    they end; in a replayed history nothing is stale unless a limit is given. problems: a line for each problem, such as
    late files, stale tables or a red hour.
    """

    lake: str
    release: releases.Release | None = None
    writer: str | None = None
    restatement: Restatement | None = None
    late: str | None = None
    left: str | None = None
    unfinished: str | None = None
    refused: Sequence[str] = ()
    red: str | None = None
    pending: Sequence[str] | None = ()
    goes_with_clock: bool = True
    tables: Sequence[TableStatus] = ()
    problems: Sequence[str] = ()


def lake_status(
    settings: Settings, stale_hours: float | None = None, max_failures: int = 0, is_at_work: bool = False
) -> LakeStatus:
    """Return the status of the lake.

    stale_hours: a table is stale if its last hour ended longer ago; None means STALE_HOURS if hours are refreshed as
    they end, else no limit. max_failures: the number of failures of a table that is not yet a problem. is_at_work:
    whether a run is active, even if none of its processes holds the lock between two tasks.
    """
    lake = Lake.of(settings)
    retained = releases.read_all(lake)
    release, with_clock = (retained[-1] if retained else None), goes_with_clock(retained)
    limit = stale_hours if stale_hours is not None else STALE_HOURS if with_clock else inf
    rows = event_log.read(
        lake, event_log.RECENT, ("table_name", "event_type", "status", "seconds", "hour", "run_id", "details")
    )
    checks = {row.table_name: row for row in rows if row.event_type == "check" and row.table_name}
    failures, seconds = _failures(rows), _seconds(rows)

    def table_status(table: Node) -> TableStatus:
        state = lake.state(table.name)
        if not isinstance(table, Table):
            hour = hour_in(state.delta) if state else None
        elif release and state and _is_published(release, table.name, state):
            hour = release.hour  # the table may be unchanged since an earlier hour
        else:
            hour = provenance(lake.folder(table.name), state.version).origin.get("hour") if state else None
        check, age = checks.get(table.name), _age(hour)
        return TableStatus(
            table.name,
            rows=state.rows if state else None,
            files=state.files if state else None,
            bytes=state.bytes if state else None,
            version=state.version if state else None,
            published=release.versions.get(table.name) if release else None,
            hour=hour,
            age_hours=age,
            stale=age is not None and age > limit,
            check=check.status if check else "not checked",
            failures=failures.get(table.name, 0),
            mode=table.refresh_method,
            inputs=table.inputs,
            definition_changed=is_definition_changed(lake, table, state.delta if state else None),
            last_seconds=seconds[table.name][-1] if table.name in seconds else None,
            mean_seconds=mean(seconds[table.name]) if table.name in seconds else None,
        )

    registry = tables_of(lake, settings.extras)
    tables = files.side_by_side(table_status, registry)
    writer, restatement = current_writer(lake), read_restatement(lake)
    late = late_warning(read_late(lake))
    feeds = {feed.name for feed in registry.feeds}
    table_hours = {row.table: row.hour for row in tables if row.table in feeds}
    applied = ledger.last_common_hour(table_hours)
    unpublished = find_unpublished(lake, registry, applied, restatement)
    red_hour = unpublished.red if unpublished else None
    red = f"{red_hour.describe()}. {red_hour.recovery}" if red_hour else None
    # The advice must wait until the red hour is fixed, or until hours that are being restated are applied again.
    restated = restatement.hours if restatement else ()
    waiting = [] if red_hour else [hour for hour in read_never_applied(lake, applied) if hour not in restated]
    left = describe(waiting) if waiting else None
    refused = _refused_hours(rows, next(iter(waiting), None))
    is_idle = not (writer or is_at_work or red_hour)
    cut_short = restatement.describe_cut_short() if restatement and is_idle else None
    if is_idle and (erasure := describe_unfinished_erasure(lake)):
        cut_short = f"hours wait: {erasure}"
    unfinished = (
        f"hour {unpublished.hour} is in Bronze, and readers do not have it: {advice.refresh(unpublished.hour)}"
        if unpublished and is_idle and not cut_short and _is_quiet(rows)
        else None
    )
    half = ledger.hour_cut_short(table_hours)
    if half and not unpublished and is_idle and not cut_short and _is_quiet(rows):
        unfinished = f"hour {half} is in parts of Bronze: {advice.refresh(half)} to finish it"
    return LakeStatus(
        lake.root,
        release=release,
        writer=str(writer) if writer else None,
        restatement=restatement,
        late=late,
        left=left,
        unfinished=unfinished,
        refused=refused,
        red=red,
        goes_with_clock=with_clock,
        tables=tables,
        problems=[
            *filter(None, (red, late, left, cut_short, unfinished)),
            *refused,
            *_problems(release, tables, limit, max_failures),
        ],
    )


def _is_published(release: releases.Release, table: str, state: TableState) -> bool:
    """Return whether the newest version of a table is the one in ``release``."""
    published = release.version_of(table)
    return published is not None and published.version == state.version and published.is_in(state.delta)


def _is_quiet(rows: Sequence[EventRow]) -> bool:
    """Whether the newest event is so old that no run can be between two of its tasks, or about to try one again."""
    return not rows or datetime.now(UTC) - rows[-1].event_timestamp > BETWEEN_TASKS


def _refused_hours(rows: Iterable[EventRow], waiting: str | None) -> list[str]:
    """Say why steps of Bronze failed that have not succeeded since, which means that a pending hour is refused.

    waiting: the first hour that nobody has applied; that later ones do not land follows from it.
    """
    failed: dict[str, EventRow] = {}
    for row in rows:
        if row.table_name is None and row.event_type in {"land", "apply"}:
            if row.status == "failed":
                if waiting is None or (row.hour or "") <= waiting:
                    failed[row.event_type] = row
            elif row.status in DID_WORK:
                failed.pop(row.event_type, None)
    return [f"{kind} of {row.hour or 'the next hour'} failed: {_reason(row)}" for kind, row in failed.items()]


def _reason(row: EventRow) -> str:
    """Say why a step failed, without rows of change files."""
    return str(row.details.get("error_without_data") or row.details.get("note") or f"see the log of run {row.run_id}")


def _failures(rows: Iterable[EventRow]) -> dict[str, int]:
    """Count, by table, the failed steps since its last success."""
    failures: dict[str, int] = {}
    for row in rows:
        if name := row.table_name:
            failures[name] = failures.get(name, 0) + 1 if row.status == "failed" else 0
    return failures


def _seconds(rows: Iterable[EventRow]) -> dict[str, list[float]]:
    """Return, by table, the durations of the last MEAN_OF refreshes that wrote it."""
    by_table: dict[str, list[float]] = {}
    for row in rows:
        if row.table_name and row.event_type in {"apply", "refresh"} and row.status in DID_WORK:
            by_table.setdefault(row.table_name, []).append(row.seconds)
    return {name: seconds[-MEAN_OF:] for name, seconds in by_table.items()}


def _problems(
    release: releases.Release | None, tables: Sequence[TableStatus], stale_hours: float, max_failures: int
) -> list[str]:
    problems = [] if release else ["nothing is published: run medallion load"]
    stale: dict[str | None, list[TableStatus]] = {}
    for row in tables:
        if row.stale:
            stale.setdefault(row.hour, []).append(row)
    for hour, rows in stale.items():  # one line per hour, as usually all tables are stale for the same reason
        who = f"{rows[0].table} is" if len(rows) == 1 else f"{len(rows)} tables are"
        age = f"{rows[0].age_hours:,.1f} hours ago, more than {stale_hours:g}"
        problems.append(f"{who} stale: the last hour, {hour}, ended {age}")
    for row in tables:
        if row.check == "failed":
            problems.append(f"{row.table} failed its last check")
        elif row.failures > max_failures:
            problems.append(f"{row.table} has failed {row.failures} times in a row")
    return problems


def _age(hour: str | None) -> float | None:
    """Return the hours since ``hour`` ended."""
    return None if hour is None else (datetime.now(UTC) - parse_hour(hour)) / ONE_HOUR - 1
