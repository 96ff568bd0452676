"""Figures of each run of an hour: rows, warnings, release, seconds and CPU by phase; full compared with incremental."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from medallion.model.refresh_method import StateWork, read_state_work
from medallion.ops.event_log import phase_of
from medallion.ops.event_schema import DID_WORK, WORST_FIRST, EventRow, is_refresh_phase

COLUMNS = (
    *("run_id", "hour", "event_type", "layer", "table_name", "strategy", "status", "started_at"),
    *("seconds", "cpu_seconds", "rows_in", "rows_out", "details"),
)


ERASE = "erase"
_COMMAND_RUN = re.compile(r"[a-z]+__\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d_[0-9a-f]{6}")


@dataclass(frozen=True)
class RunFigures:
    """One run of one hour.

    strategy: full or incremental; ERASE for a run that erased persons. status: the status of its worst step. seconds,
    cpu_seconds: by phase. tables: number of tables written, and number refreshed. state_work: work on incremental
    state, which later hours do not have to repeat.
    """

    run_id: str
    hour: str
    strategy: str
    status: str
    rows_in: int
    rows_changed: int
    tables: tuple[int, int]
    warnings: int
    release_id: int | None
    seconds: Mapping[str, float]
    cpu_seconds: Mapping[str, float]
    state_work: StateWork | None

    @property
    def refresh_seconds(self) -> float:
        """Seconds for the computed layers, the part that depends on the strategy."""
        return sum(seconds for phase, seconds in self.seconds.items() if is_refresh_phase(phase))

    @property
    def cpu_hours(self) -> float:
        """Core-hours that the run used."""
        return sum(self.cpu_seconds.values()) / 3600


def is_of_airflow(run_id: str) -> bool:
    """Whether a run is one of Airflow's, not of a command."""
    return _COMMAND_RUN.fullmatch(run_id) is None


def erasing_runs(rows: Iterable[EventRow]) -> frozenset[str]:
    """Return the ids of the runs that erased persons: they refresh tables, but their seconds are no hour's."""
    return frozenset(row.run_id for row in rows if row.event_type == "erase")


def run_history(rows: Iterable[EventRow]) -> list[RunFigures]:
    """Return the runs in ``rows`` of the event log, one for each hour of a range; newest hour first, then newest run.

    rows: oldest first.
    """
    steps: dict[tuple[str, str], list[EventRow]] = {}
    for row in rows:
        if row.hour:
            steps.setdefault((row.run_id, row.hour), []).append(row)
    runs = [_figures(key, events) for key, events in steps.items() if any(_counts(row) for row in events)]
    runs.reverse()
    return sorted(runs, key=lambda run: run.hour, reverse=True)  # which leaves runs of one hour in their order


@dataclass(frozen=True)
class HourCost:
    """Seconds above Bronze of the full and the incremental run of one hour; None for a strategy that was not run.

    estimate: the median of all full runs, for an hour without a full run; else None.
    """

    hour: str
    full: float | None
    incremental: float | None
    estimate: float | None
    state_work: StateWork | None


def compare_costs(runs: Sequence[RunFigures]) -> list[HourCost]:
    """Return the costs of each published hour of ``runs``, oldest first; runs that erased persons do not count."""
    published = [run for run in runs if run.release_id is not None and run.strategy != ERASE]
    usual = [run.refresh_seconds for run in published if run.strategy == "full"]
    hours: dict[str, dict[str, RunFigures]] = {}
    for run in published:
        hours.setdefault(run.hour, {}).setdefault(run.strategy, run)
    costs = []
    for hour, by_strategy in sorted(hours.items()):
        full, incremental = by_strategy.get("full"), by_strategy.get("incremental")
        costs.append(
            HourCost(
                hour,
                full.refresh_seconds if full else None,
                incremental.refresh_seconds if incremental else None,
                median(usual) if usual and full is None else None,
                incremental.state_work if incremental else None,
            )
        )
    return costs


def _counts(row: EventRow) -> bool:
    return row.table_name is None and row.event_type in ("apply", "refresh")


def final_steps(rows: Iterable[EventRow]) -> list[EventRow]:
    """Return the last attempt of each step of a run, from ``rows`` in chronological order.

    A skipped attempt does not replace the one that did the work: a restatement applies its hours in one task, so the
    task that applies changes has nothing left to do.
    """
    final: dict[tuple[Any, ...], EventRow] = {}
    for row in rows:
        started = row.started_at if row.event_type == "session" else None  # each session is a separate JVM
        key = (row.hour, row.event_type, row.layer, row.table_name, started)
        if row.status != "skipped" or key not in final or final[key].status not in DID_WORK:
            final[key] = row
    return [*final.values()]


def _warnings(final: Iterable[EventRow]) -> int:
    """Count what warned: expectations, as the validation report counts them, and other steps and tables."""
    checks, others = Counter[str | None](), 0
    whole: set[str | None] = set()
    for row in final:
        if row.event_type != "check":
            others += row.status == "warned"
        elif row.table_name is None:
            whole |= {row.layer} if row.status == "warned" else set()
        else:
            expectations = row.details.get("expectations", {}).values()
            checks[row.layer] += sum(result.get("status") == "warned" for result in expectations)
    return others + checks.total() + sum(not checks[layer] for layer in whole)


def _figures(key: tuple[str, str], events: Sequence[EventRow]) -> RunFigures:
    final = final_steps(events)
    steps = [row for row in final if row.table_name is None]
    refreshed = [row for row in final if row.event_type == "refresh" and row.table_name]
    applied = next((row for row in steps if row.event_type == "apply"), None)
    publish = next((row for row in steps if row.event_type == "publish"), None)
    statuses = [row.status for row in steps]
    seconds: dict[str, float] = {}
    cpu: dict[str, float] = {}
    for row in steps:
        phase = phase_of(row)
        seconds[phase] = seconds.get(phase, 0.0) + row.seconds
        cpu[phase] = cpu.get(phase, 0.0) + (row.cpu_seconds or 0.0)
    return RunFigures(
        *key,
        ERASE if erasing_runs(events) else next((row.strategy for row in reversed(events) if row.strategy), ""),
        next((word for word in WORST_FIRST if word in statuses), "skipped"),
        (applied and applied.rows_in) or 0,
        (applied and applied.rows_out) or 0,
        (sum(row.status in DID_WORK for row in refreshed), len(refreshed)),
        _warnings(final),
        publish.details.get("release_id") if publish and publish.status != "failed" else None,
        seconds,
        cpu,
        max(filter(None, (read_state_work(row.details) for row in refreshed)), key=[*StateWork].index, default=None),
    )
