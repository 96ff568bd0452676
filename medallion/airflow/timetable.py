"""The hours of the schedule, and runs that are called by the hour they are for."""

from typing import Any

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.utils.types import DagRunType
from pendulum import DateTime

from medallion.hours import format_hour


class Hourly(CronDataIntervalTimetable):
    """Each hour of UTC, whose run starts when it has ended.

    The plain "@hourly" has intervals of no width: its runs would not know which hour they are for.
    """

    def __init__(self) -> None:
        super().__init__("0 * * * *", timezone="UTC")

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "Hourly":  # noqa: ARG003 (Airflow's name)
        """Make it from nothing: it has no settings."""
        return cls()

    def serialize(self) -> dict[str, Any]:
        """Give its settings, of which it has none."""
        return {}

    def generate_run_id(
        self, *, run_type: DagRunType, run_after: DateTime, data_interval: DataInterval | None, **extra: Any
    ) -> str:
        """Call a scheduled run by its hour."""
        if run_type == DagRunType.SCHEDULED and data_interval is not None:
            return run_type.generate_run_id(suffix=format_hour(data_interval.start))
        return super().generate_run_id(run_type=run_type, run_after=run_after, data_interval=data_interval, **extra)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Give the next hour. Only a backfill asks with ``catchup``, and calls its runs by when they may start.

        That is in the past either way: with the start of the hour in place of its end, they are called by their hour.
        """
        info = super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
        if info is None or info.data_interval is None or not restriction.catchup:
            return info
        return info._replace(run_after=info.data_interval.start)
