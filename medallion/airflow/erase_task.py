"""The task that erases persons. It reads them from a file or Variable, so that no form, note or log shows them."""

from pathlib import Path
from typing import Any

from airflow.sdk import Variable, task

from medallion.airflow.failures import as_airflow_errors
from medallion.airflow.naming import at
from medallion.airflow.notes import leave_note, noting_failures
from medallion.airflow.runs import require_known_keys, text_of
from medallion.airflow.tasks import RunOnSpark, spark_master
from medallion.errors import UsageError, advice


@task(task_id="erase")
def erase_persons(root: str, *, params: Any = None, dag_run: Any = None, ti: Any = None, dag: Any = None) -> None:
    """Erase the persons whom a file or a Variable names, in a Spark session of this process; the note names nobody."""
    from medallion.ingest.erased_subjects import subjects_in
    from medallion.pipeline import erasure
    from medallion.pipeline.driver import open_driver
    from medallion.pipeline.erase_forecast import forecast
    from medallion.pipeline.run import Run

    with at(root) as project, noting_failures(ti, "erase"), as_airflow_errors():
        require_known_keys(dag_run.conf, dag.params)
        file, variable = (text_of(params, key) for key in ("subjects_file", "subjects_variable"))
        subjects = [*subjects_in(_read(file)), *subjects_in(_value_of(variable))]
        if params["dry_run"] and not subjects:
            raise UsageError(f"nobody is named: {advice.name_subjects()}")
        settings = project.settings().replace(spark_master=spark_master(RunOnSpark.connection))
        with open_driver(settings) as driver:
            if params["dry_run"]:
                would = forecast(driver.lake, driver.tables, subjects, (), settings.source)
                leave_note(ti, "; ".join(would.lines()))
                return
            run = Run(settings, None, dag_run.run_id, ti.try_number, strategy=params["strategy"])
            outcome, _ = erasure.erase(run, driver, subjects, force=params["force"])
        leave_note(ti, outcome.message)


def _value_of(variable: str | None) -> str:
    """Return the text of a Variable. Raises UsageError, which quotes no name: it may be a subject by mistake."""
    if variable is None:
        return ""
    text = Variable.get(variable, default=None)
    if text is None:
        raise UsageError("subjects_variable is the name of no Variable: create it, or correct the name")
    return str(text)


def _read(file: str | None) -> str:
    """Return the text of a file of subjects. Raises UsageError, which does not quote the file."""
    if file is None:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError):  # of a name that no file can have, or of bytes that are no UTF-8
        raise UsageError("subjects_file cannot be read by this worker as a text in UTF-8") from None
