"""The runs of a DAG, for tasks and triggers: what a run asks for, which other runs exist, and how to start one."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from medallion.errors import MedallionError, UsageError
from medallion.hours import format_hour, parse_hour
from medallion.pipeline.turns import Kind, Request


class RequestRefused(AirflowFailException):
    """Somebody asked for an hour that cannot be refreshed now: the run fails with the reason, without an alert."""


class SchedulerRuns:
    """The runs of ``dag_id`` other than ``run_id``."""

    def __init__(self, dag_id: str, run_id: str) -> None:
        self._dag_id, self._run_id = dag_id, run_id

    def active(self, run_id: str) -> bool:
        """Return whether run ``run_id``, if it is not this one, is queued or running."""
        return run_id not in ("", self._run_id) and self._any(("queued", "running"), run_ids=[run_id])

    def running(self, hours: Collection[str]) -> bool:
        """Return whether a run whose logical date is one of ``hours`` is running."""
        return self._any(("running",), logical_dates=[parse_hour(hour) for hour in hours])

    def queued(self, hours: Collection[str]) -> bool:
        """Return whether a run whose logical date is one of ``hours`` is queued."""
        return self._any(("queued",), logical_dates=[parse_hour(hour) for hour in hours])

    def any_queued(self) -> bool:
        """Return whether any run is queued."""
        return self._any(("queued",))

    def _any(self, states: Collection[str], **which: Any) -> bool:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        return RuntimeTaskInstance.get_dr_count(self._dag_id, states=[*states], **which) > 0


UNTIL = "until"  # a key of catch-up runs, in addition to those of the form
SYNONYMS = {"tables": "select", "table": "select", "date": "hour", "logical_date": "hour", "mode": "strategy"}


def require_known_keys(conf: Mapping[str, Any] | None, form: Iterable[str]) -> None:
    """Refuse a configuration with an unknown key, which would otherwise be ignored silently.

    Args:
        conf: The configuration that the run was triggered with.
        form: The keys of the DAG's form.

    Raises:
        RequestRefused: A key is unknown; the message names the nearest known one.
    """
    known = [*form]
    for key in conf or {}:
        if key in known or key == UNTIL:
            continue
        words = {**{name: name for name in known}, **{word: name for word, name in SYNONYMS.items() if name in known}}
        near = get_close_matches(key.lower(), words, 1)
        hint = f"did you mean {words[near[0]]}? " if near else ""
        raise RequestRefused(
            f"the run's configuration has an unknown key {key[:40]!r}: {hint}It may have {', '.join(known)};"
            " nothing was changed"
        )


def text_of(params: Mapping[str, Any], key: str) -> str | None:
    """Return the form's text under ``key``, without surrounding blanks; None if it is empty.

    Raises UsageError for a value that is not text, such as a list.
    """
    value = params.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise UsageError(f"{key} must be text, and is {str(value)[:40]}")
    return value.strip() or None


def describe_redo(params: Mapping[str, Any], tables: str | None) -> str:
    """Return the beginning of the note of a run that restated or reprocessed; empty for an ordinary refresh.

    tables: the tables that a selection without an hour refreshed at the published hour; what follows says which of them
    were written.
    """
    if tables:
        return f"selected {tables} at the published hour; "
    words = {"restate": "restated from", "reprocess": "reprocessed"}.get(params.get("action", ""))
    return f"{words} {text_of(params, 'hour')}; " if words else ""


def request_of(params: Mapping[str, Any], dag_run: Any) -> Request:
    """Return what a run asks for.

    Raises:
        UsageError: The form's hour is not valid.
    """
    hour, until = requested_hour(params, dag_run), text_of(dag_run.conf or {}, UNTIL)
    if until is not None:
        parse_hour(until)
    # Compared, not looked up: Airflow's run type equals its text but has a different hash.
    kinds: tuple[tuple[str, Kind], ...] = (("backfill", "backfill"), ("scheduled", "schedule"))
    kind: Kind = next((kind for run_type, kind in kinds if dag_run.run_type == run_type), "person")
    return Request("catch_up" if until else kind, hour, until)


def requested_hour(params: Mapping[str, Any], dag_run: Any) -> str | None:
    """Return the form's hour, else the scheduled hour; None, which means the next hour, if a person left it empty.

    The runs of a backfill share one form, so each takes its scheduled hour instead of the form's.

    Raises UsageError for text that is not an hour, so that only parsed text gets into a path or a query.
    """
    hour = text_of(params, "hour")
    if hour is not None and dag_run.run_type != "backfill":
        parse_hour(hour)
        return hour
    if dag_run.run_type == "manual" or dag_run.data_interval_start is None:
        return None
    return format_hour(dag_run.data_interval_start)


def start_run(context: Any, hour: str, until: str) -> str:
    """Trigger a run for ``hour`` that catches up to ``until`` and starts once this run has ended; return its id."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun

    dag_run = context["dag_run"]
    run_id = f"catch_up__{hour}__{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    answer = task_runner.SUPERVISOR_COMMS.send(
        TriggerDagRun(
            dag_id=dag_run.dag_id,
            run_id=run_id,
            conf={"hour": hour, UNTIL: until, "strategy": context["params"]["strategy"]},
            note=f"hour {hour}: catching up to {until}, started by {dag_run.run_id}",
        )
    )
    if isinstance(answer, ErrorResponse):
        raise MedallionError(f"no run could be started for hour {hour}: {answer.error}")
    return run_id
