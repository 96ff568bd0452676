"""Waiting for an hour to arrive at the source, without a worker's slot: in the triggerer, for a folder and for S3."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from medallion.errors import MedallionError
from medallion.ingest.arrivals import Arrivals
from medallion.ops import event_log
from medallion.settings import Settings
from medallion.storage.lake import Lake


class HourArrived(BaseTrigger):
    """Fires with the next hour in line, once its files have settled and the last refresh began long enough ago."""

    def __init__(self, settle: float, every: float, poll: float, patience: float) -> None:
        """settle: seconds without a change of a file; every: at least between two refreshes; poll: between two looks;
        patience: until it fires without an hour."""
        super().__init__()
        self.pace = {"settle": settle, "every": every, "poll": poll, "patience": patience}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How the triggerer makes it anew."""
        return f"{__name__}.HourArrived", self.pace

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is one. What is wrong with source or lake may be mended meanwhile; it is told at the end."""
        settings = Settings.from_environment()
        arrivals = Arrivals(settings, self.pace["settle"])
        until, why = time.monotonic() + self.pace["patience"], "none has arrived"
        while time.monotonic() < until:
            try:
                found = await asyncio.to_thread(arrivals.look)
                if found and not await asyncio.to_thread(_began, Lake(settings.lake), self.pace["every"]):
                    yield TriggerEvent({"hour": found[0]})
                    return
            except MedallionError as error:
                why = str(error)
            await asyncio.sleep(self.pace["poll"])
        yield TriggerEvent({"none": f"no hour to refresh in {self.pace['patience']:g} seconds: {why}"})


def _began(lake: Lake, every: float) -> bool:
    """Whether a refresh has begun in the last ``every`` seconds."""
    since = datetime.now(UTC) - timedelta(seconds=every)
    rows = event_log.read(lake, since, ("started_at", "status"), event_type="land")
    return any(row["started_at"] >= since and row["status"] != "skipped" for row in rows)


class WaitForHour(BaseOperator):
    """Gives the next hour in line once it has arrived; skips what follows where none does. Times as for HourArrived."""

    def __init__(
        self, *, settle: float = 15, every: float = 60, poll: float = 5, patience: float = 3600, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._wait = HourArrived(settle, every, poll, patience)

    def execute(self, context: Any) -> None:
        """Hand over to the triggerer."""
        self.defer(trigger=self._wait, method_name="arrived")

    def arrived(self, context: Any, event: dict[str, str]) -> str:
        """The hour, for the tasks that follow."""
        if "none" in event:
            raise AirflowSkipException(event["none"])
        return event["hour"]
