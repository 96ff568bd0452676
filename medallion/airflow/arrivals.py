"""Wait for an hour to arrive at the source, a folder or S3: in the triggerer, without a worker slot."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from medallion.airflow.naming import REFRESH, at, name_in_airflow
from medallion.airflow.notes import leave_note, noting_failures
from medallion.airflow.runs import SchedulerRuns, require_known_keys
from medallion.errors import MedallionError
from medallion.hours import ONE_HOUR
from medallion.ops import event_log
from medallion.pipeline.turns import End, Request, Take, Wait, decide, read_line
from medallion.project import Project
from medallion.settings import Settings
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from medallion.ingest.arrivals import Arrivals

SETTLE_SECONDS = 15  # for which an hour's files must stay unchanged before it is refreshed
EVERY_SECONDS = 60  # between the starts of two refreshes
PAUSE_SECONDS = 900  # before an hour whose refresh failed is tried again


class HourArrived(BaseTrigger):
    """Fires with the next hour, once its files have settled and it can be refreshed.

    It does not fire while an earlier hour is red or being refreshed, nor soon after a refresh of the same hour failed:
    otherwise runs that are bound to fail would follow each other endlessly.
    """

    def __init__(
        self, settle: float, every: float, poll: float, timeout: float, pause: float, project: str = ""
    ) -> None:
        """Set the pace, in seconds.

        Args:
            settle: How long the hour's files must stay unchanged.
            every: Minimum time from the start of one refresh to the start of the next.
            poll: Time between two looks at the source.
            timeout: Time after which the trigger fires without an hour.
            pause: Time to wait after a failed refresh of the hour.
            project: The root of the project whose source is watched.
        """
        super().__init__()
        self.project = project
        self.pace = {"settle": settle, "every": every, "poll": poll, "timeout": timeout, "pause": pause}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Serialize the trigger for the triggerer."""
        return f"{__name__}.HourArrived", {"project": self.project, **self.pace}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until an hour arrives. Errors of the source or lake are retried; a timeout reports the last reason."""
        from medallion.ingest.arrivals import Arrivals  # here, so that parsing a DAG file loads no engines

        with at(self.project) as project:
            settings = project.settings()
            arrivals = Arrivals(settings, self.pace["settle"])
        until, why = time.monotonic() + self.pace["timeout"], "none has arrived"
        while time.monotonic() < until:
            try:
                hour, why = await sync_to_async(self._look, thread_sensitive=False)(settings, arrivals)
                if hour is not None:
                    yield TriggerEvent({"hour": hour})
                    return
            except MedallionError as error:
                why = str(error)
            await asyncio.sleep(self.pace["poll"])
        yield TriggerEvent({"none": f"no hour to refresh in {self.pace['timeout']:g} seconds: {why}"})

    def _look(self, settings: Settings, arrivals: "Arrivals") -> tuple[str | None, str]:
        """Return the hour that can be refreshed now, or the reason why none can."""
        lake = Lake.of(settings)
        with at(self.project) as project:
            arrival = arrivals.look()
            runs = SchedulerRuns(name_in_airflow(project, REFRESH), "")
            verdict = decide(Request("person", None), read_line(settings), runs, window=0)
        if isinstance(verdict, Wait | End):
            return None, verdict.reason
        assert isinstance(verdict, Take), "nothing is caught up for a person"
        hour = verdict.hour or (arrival[0] if arrival else None)  # an hour that a crash left unpublished comes first
        if hour is None:
            return None, "none has arrived"
        since = _ago(self.pace["every"])
        landed = event_log.read(lake, since, ("started_at", "status"), event_type="land")
        if any(row.started_at >= since and row.status != "skipped" for row in landed):
            return None, f"hour {hour} has arrived, soon after another"
        if event_log.read(lake, _ago(self.pace["pause"]), (), hour=hour, status="failed"):
            return None, f"hour {hour} failed less than {self.pace['pause'] / 60:g} minutes ago"
        return hour, ""


def _ago(seconds: float) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)


class WaitForHour(BaseOperator):
    """Returns the next hour once it has arrived, or skips the tasks that follow. The times are those of HourArrived."""

    def __init__(
        self,
        *,
        project: Project,
        settle: float = SETTLE_SECONDS,
        every: float = EVERY_SECONDS,
        timeout: float = ONE_HOUR.total_seconds(),
        pause: float = PAUSE_SECONDS,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._wait = HourArrived(settle, every, 5, timeout, pause, str(project.root))

    def execute(self, context: Any) -> None:
        """Defer to the triggerer."""
        with noting_failures(context["ti"]):
            require_known_keys(context["dag_run"].conf, self.dag.params if self.has_dag() else ())
        self.defer(trigger=self._wait, method_name="arrived")

    def arrived(self, context: Any, event: dict[str, str]) -> str:
        """Return the hour that arrived, for the tasks that follow; skip them if none did."""
        with noting_failures(context["ti"]):
            if "none" in event:
                raise AirflowSkipException(event["none"])
        leave_note(context["ti"], f"hour {event['hour']} has arrived: {REFRESH} was started for it")
        return event["hour"]
