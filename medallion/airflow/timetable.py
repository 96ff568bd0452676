"""The hourly schedule, with run ids that name the hour of the run."""

from typing import Any

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.utils.types import DagRunType
from pendulum import DateTime

from medallion.hours import format_hour


class Hourly(CronDataIntervalTimetable):
    """Each hour in UTC; its run starts when the hour has ended.

    The plain "@hourly" has data intervals of no length, so its runs would not know which hour they are for.
    """

    def __init__(self) -> None:
        super().__init__("0 * * * *", timezone="UTC")

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "Hourly":  # noqa: ARG003 (Airflow's name)
        """Return the timetable; it has no settings to restore."""
        return cls()

    def serialize(self) -> dict[str, Any]:
        """Return the settings, of which it has none."""
        return {}

    def generate_run_id(
        self, *, run_type: DagRunType, run_after: DateTime, data_interval: DataInterval | None, **extra: Any
    ) -> str:
        """Return a run id that names the hour of a scheduled run."""
        if run_type == DagRunType.SCHEDULED and data_interval is not None:
            return run_type.generate_run_id(suffix=format_hour(data_interval.start))
        return super().generate_run_id(run_type=run_type, run_after=run_after, data_interval=data_interval, **extra)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Return the next hour; in a backfill, with ``run_after`` set to the start of the hour instead of its end.

        Only a backfill asks with ``catchup``. Its run ids contain ``run_after``, and so name the hour of the run. Both
        times are in the past, so no run starts too early.
        """
        info = super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
        if info is None or info.data_interval is None or not restriction.catchup:
            return info
        return info._replace(run_after=info.data_interval.start)
