"""Each run's note: what it did, or why it did nothing, where people look for it, in the list of runs.

A task has no way to write the note of its run. So it leaves it as an XCom, and a listener in the scheduler, which holds
the run when it ends, makes that the note.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow.listeners import hookimpl
from airflow.sdk.exceptions import AirflowException

KEY = "run_note"
MAX_CHARACTERS = 1000  # of the column in Airflow's database
TAG = "medallion"


def leave_note(ti: Any, text: str) -> None:
    """Leave the note of the run of task instance ``ti``; the one that is left last counts."""
    ti.xcom_push(key=KEY, value=text[:MAX_CHARACTERS])


@contextmanager
def noting_failures(ti: Any, step: str = "") -> Iterator[None]:
    """Leave the reason as the run's note when the block fails or skips, after the ``step`` that it happened in."""
    try:
        yield
    except AirflowException as error:
        leave_note(ti, f"{step}: {error}" if step else str(error))
        raise


class NotesOfRuns:
    """The listener. It works in the scheduler's own session: another one would wait for the row that it holds."""

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        """Write the note of a run that ended well, or that had nothing to do."""
        _write_note(dag_run)

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        """Write the note of a run that failed."""
        _write_note(dag_run)


def _write_note(dag_run: Any) -> None:
    try:
        failed = sorted(ti.task_id for ti in dag_run.get_task_instances() if ti.state == "failed")
        text = _left_note(dag_run, failed)
        if text is None and failed and TAG in (getattr(dag_run.dag, "tags", None) or ()):
            text = f"{', '.join(failed)} failed without a word, as when its process is killed: see its log"
        if text is not None:
            dag_run.note = text[:MAX_CHARACTERS]
    except Exception:
        logging.getLogger(__name__).exception("the note of run %s was not written", dag_run.run_id)


def _left_note(dag_run: Any, failed: Sequence[str]) -> str | None:
    """The note that a task of the run left last; of a run that failed, one of the failed tasks."""
    from airflow.models.xcom import XComModel
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:
        return None
    wanted = [XComModel.dag_id == dag_run.dag_id, XComModel.run_id == dag_run.run_id, XComModel.key == KEY]
    if failed:
        wanted.append(XComModel.task_id.in_(failed))
    found = session.scalar(select(XComModel).where(*wanted).order_by(XComModel.timestamp.desc()).limit(1))
    return None if found is None else str(XComModel.deserialize_value(found))
