"""The first task of a refresh: it determines the hour of the run, waits for its turn, and lands the hour's files.

It waits in the triggerer for a bounded time, and holds neither a worker slot nor the slot of the lake's pool meanwhile.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from medallion.airflow.failures import BeforeFirstHour, as_airflow_errors
from medallion.airflow.naming import at
from medallion.airflow.notes import leave_note, noting_failures
from medallion.airflow.redo import redo_hour, redo_selection
from medallion.airflow.runs import RequestRefused, SchedulerRuns, request_of, require_known_keys, start_run, text_of
from medallion.airflow.tasks import run_in_process
from medallion.errors import MedallionError, UsageError
from medallion.ingest.never_applied import forget_withdrawn, warn_of_never_applied
from medallion.model.selection import select_tables
from medallion.ops.lake_tables import tables_at_parse_time
from medallion.pipeline.turns import CatchUp, End, Line, Request, Take, Verdict, Wait, decide, read_line
from medallion.project import Project, find_project
from medallion.settings import Settings
from medallion.storage.lake import Lake

POLL_SECONDS = 10.0
TURN_SECONDS = 3600.0  # longest wait without progress of the lake
PLACE_SECONDS = 120.0


def _request(params: Mapping[str, Any], dag_run: Any) -> Request:
    """Return what a run asks for. Raises RequestRefused for an hour that is not valid."""
    try:
        return request_of(params, dag_run)
    except UsageError as error:
        raise RequestRefused(str(error)) from None


def require_selection(params: Mapping[str, Any], settings: Settings) -> None:
    """Raise RequestRefused for an invalid selection of tables, before anything is changed."""
    try:
        if text := text_of(params, "select"):
            select_tables(tables_at_parse_time(settings), text)
    except UsageError as error:
        raise RequestRefused(str(error)) from None


def _ending(end: End, settings: Settings, run_id: str) -> AirflowException:
    """Return the exception that ends a run without work; hours that are left to a person cause an alert only once."""
    if end.left and warn_of_never_applied(Lake.of(settings), run_id, end.left):
        return AirflowFailException(end.reason)
    return RequestRefused(end.reason) if end.failed else AirflowSkipException(end.reason)


class LandChanges(BaseOperator):
    """Lands the hour of the run and returns it to the tasks that follow, or skips or fails with a note that says why.

    A scheduled run that finds earlier hours pending starts a run for the first of them, which starts the next.
    """

    def __init__(self, *, project: Project, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._project = str(project.root)

    def execute(self, context: Any) -> str:
        """Decide whether to land the hour, wait or end, and do so."""
        with at(self._project):
            return self._go_on(context, {})

    def resume(self, context: Any, event: Mapping[str, Any]) -> str:
        """Decide again after waiting; ``event`` says how the wait ended."""
        with at(self._project):
            return self._go_on(context, event)

    def _go_on(self, context: Any, event: Mapping[str, Any]) -> str:
        dag_run, settings = context["dag_run"], find_project().settings()
        with noting_failures(context["ti"]), as_airflow_errors():
            require_known_keys(dag_run.conf, self.dag.params if self.has_dag() else ())
            require_selection(context["params"], settings)
            if (action := context["params"].get("action", "refresh")) != "refresh":
                return redo_hour(action, context)
            request = _request(context["params"], dag_run)
            runs = SchedulerRuns(dag_run.dag_id, dag_run.run_id)
            line = read_line(settings, request.until or request.hour)
            if request.kind == "schedule" and request.hour is not None:
                forget_withdrawn(Lake.of(settings), dag_run.run_id, line.applied, line.pending, request.hour)
            is_open = request.kind == "person" and request.hour is None and line.unpublished is None
            if is_open and text_of(context["params"], "select"):
                return redo_selection(context)
            verdict = decide(request, line, runs, settings.catch_up_hours)
            if isinstance(verdict, Wait):
                verdict = self._wait(context, request, verdict, event)
            if isinstance(verdict, CatchUp):
                run_id = start_run(context, verdict.hour, str(request.hour))
                raise AirflowSkipException(f"{verdict.reason}, beginning with {run_id}")
            if isinstance(verdict, End):
                raise _ending(verdict, settings, dag_run.run_id)
            try:
                outcome = run_in_process("land", None, verdict.hour, context)
            except BeforeFirstHour as error:
                if request.kind != "person":
                    raise
                raise RequestRefused(str(error)) from None
            if verdict.then is not None:
                start_run(context, verdict.then, str(request.until))
            if outcome.status == "skipped":
                raise AirflowSkipException(outcome.message)
        return str(outcome.hour)

    def _wait(self, context: Any, request: Request, wait: Wait, event: Mapping[str, Any]) -> Take | End:
        """Defer to the triggerer; if the wait is over, return whether to take the hour all the same or to end."""
        patience = _patience(wait, find_project().settings().source_wait)
        if event.get("gave_way"):
            return End(f"{wait.reason}; other runs are queued: a later run takes it", failed=False)
        if event.get("over") == wait.what or not patience:
            if wait.what == "source":
                return Take(request.hour)  # the ledger then reports what the source has instead
            return End(f"waited {patience / 60:g} minutes: {wait.reason}", failed=request.by_person)
        self.log.info("waiting, at most %g minutes: %s", patience / 60, wait.reason)
        leave_note(context["ti"], f"waiting: {wait.reason}")
        dag_run = context["dag_run"]
        turn = Turn(asdict(request), dag_run.dag_id, dag_run.run_id, self._project)
        self.defer(trigger=turn, method_name="resume")
        raise AssertionError("a deferred task goes on in resume")


class Turn(BaseTrigger):
    """Fires when a request has its turn, has waited too long, or must give way to queued runs."""

    def __init__(
        self, request: dict[str, Any], dag_id: str, run_id: str, project: str = "", poll: float = POLL_SECONDS
    ) -> None:
        """request: a ``Request`` as a dictionary. project: its root. poll: seconds between two looks at the lake."""
        super().__init__()
        self.values = {"request": request, "dag_id": dag_id, "run_id": run_id, "project": project, "poll": poll}
        self._request, self._project, self._poll = Request(**request), project, poll
        self._runs = SchedulerRuns(dag_id, run_id)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Serialize the trigger for the triggerer."""
        return f"{__name__}.Turn", self.values

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll source and lake; the time limit restarts when the lake makes progress."""
        with at(self._project) as project:
            source_wait = project.settings().source_wait
        began: tuple[Any, float] = (None, time.monotonic())
        while True:
            try:
                line, verdict = await sync_to_async(self._look, thread_sensitive=False)()
            except MedallionError:  # the task meets the same error and reports it
                yield TriggerEvent({})
                return
            if not isinstance(verdict, Wait):
                yield TriggerEvent({})
                return
            progress = (verdict.what, line.applied, line.unpublished)
            if began[0] != progress:
                self.log.info("waiting: %s", verdict.reason)
                began = (progress, time.monotonic())
            if time.monotonic() - began[1] >= _patience(verdict, source_wait):
                yield TriggerEvent({"over": verdict.what})
                return
            if (
                self._request.kind == "schedule"
                and await sync_to_async(self._runs.any_queued, thread_sensitive=False)()
            ):
                yield TriggerEvent({"gave_way": True})
                return
            await asyncio.sleep(self._poll)

    def _look(self) -> tuple[Line, Verdict]:
        with at(self._project) as project:
            settings, request = project.settings(), self._request
            line = read_line(settings, request.until or request.hour)
            return line, decide(request, line, self._runs, settings.catch_up_hours)


def _patience(wait: Wait, source_wait: float) -> float:
    """Return the longest wait in seconds. source_wait: the limit for the source, from the settings."""
    if wait.what == "source":
        return source_wait
    return TURN_SECONDS if wait.what == "turn" else PLACE_SECONDS
