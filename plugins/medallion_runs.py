"""What Airflow's scheduler needs for our runs: names that carry the hour, notes of what each did, workers in time."""

from airflow.plugins_manager import AirflowPlugin

from medallion.airflow.forkserver import EarlyForkserver
from medallion.airflow.notes import NotesOfRuns
from medallion.airflow.timetable import Hourly


class MedallionRuns(AirflowPlugin):
    """The timetable of hourly_refresh, and listeners: one writes notes, one starts what workers are forked from."""

    name = "medallion_runs"
    timetables = [Hourly]  # noqa: RUF012 (Airflow's way)
    listeners = [NotesOfRuns(), EarlyForkserver()]  # noqa: RUF012
