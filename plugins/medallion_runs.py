"""What Airflow's scheduler needs for our runs: names that carry the hour, and notes that say what each run did."""

from airflow.plugins_manager import AirflowPlugin

from medallion.airflow.notes import NotesOfRuns
from medallion.airflow.timetable import Hourly


class MedallionRuns(AirflowPlugin):
    """The timetable of hourly_refresh, and the listener that writes notes."""

    name = "medallion_runs"
    timetables = [Hourly]  # noqa: RUF012 (Airflow's way)
    listeners = [NotesOfRuns()]  # noqa: RUF012
