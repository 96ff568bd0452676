"""Each run's note: what it did, or why it did nothing, where people look for it, in the list of runs.

A task has no way to write the note of its run. So it leaves it as an XCom, and a listener in the scheduler, which holds
the run when it ends, makes that the note.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.listeners import hookimpl
from airflow.sdk.exceptions import AirflowException

from medallion.airflow.markdown import escape_markdown

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

KEY = "run_note"
MAX_CHARACTERS = 1000  # of the column in Airflow's database
_MAX_LEFT = 100_000  # of the text that a task leaves
TAG = "medallion"
_LINK_PLACE = "\u241e"  # one character that Markdown leaves alone, and no text of ours has
_REPORT = re.compile(r"see \S*/reports/validation/(?P<name>(?!\S*\.\.)\S+\.html)")  # below that folder


def leave_note(ti: Any, text: str) -> None:
    """Leave the note of the run of task instance ``ti``, and log it; the one that is left last counts."""
    logging.getLogger(__name__).info("note of this run: %s", text)
    ti.xcom_push(key=KEY, value=text[:_MAX_LEFT])


def note_of(text: str, dag_id: str = "") -> str:
    """Return the note that says ``text``, which is escaped: Airflow renders notes as Markdown.

    A validation report that it names becomes a link to its page. A note that is too long is shortened in its middle:
    it begins with what happened and ends with what to do.
    """
    report = _REPORT.search(text)
    link = "" if report is None else _link(report["name"], dag_id)
    note = escape_markdown(_REPORT.sub(_LINK_PLACE, text, count=1))
    room = MAX_CHARACTERS - len(link)
    if len(note) > room:
        ending = room // 2
        head, tail = note[: room - ending - 5], note[-ending:]
        if _ends_in_escape(head):
            head = head[:-1]
        if _ends_in_escape(note[:-ending]):
            tail = tail[1:]
        note = f"{head} ... {tail}"
    return note.replace(_LINK_PLACE, link, 1) if link else note


def _link(report: str, dag_id: str) -> str:
    """A link to the page of a validation report, which the DAG tells of which project it is."""
    from airflow.configuration import conf

    root = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    query = f"?dag_id={quote(dag_id)}" if dag_id else ""
    return f"see [its validation report]({root}/medallion/reports/file/{quote(report)}{query})"


def _ends_in_escape(text: str) -> bool:
    """Check whether the last character of a text escapes the one that would follow."""
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


@contextmanager
def noting_failures(ti: Any, step: str = "") -> Iterator[None]:
    """Leave the reason as the run's note when the block fails or skips, after the ``step`` that it happened in."""
    try:
        yield
    except AirflowException as error:
        leave_note(ti, f"{step}: {error}" if step else str(error))
        raise


class NotesOfRuns:
    """The listener. Whatever goes wrong in it is logged: a note must never cost a run, let alone the scheduler."""

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        """Write the note of a run that ended well, or that had nothing to do."""
        write_note(dag_run)

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        """Write the note of a run that failed."""
        write_note(dag_run)


def write_note(dag_run: Any) -> None:
    """Make what the tasks of a run left its note, unless a person has written one.

    It works on the scheduler's own connection, as another one would wait for the row of the run, which the scheduler
    holds; and in a savepoint below its session, which may neither commit nor meet an error of ours.
    """
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:
        return
    key, dag_id, run_id = dag_run.id, dag_run.dag_id, dag_run.run_id
    ours = TAG in (getattr(dag_run.dag, "tags", None) or ())
    try:
        connection = session.connection()
        with connection.begin_nested():
            failed = _failed_tasks(connection, dag_id, run_id)
            text = _left_note(connection, dag_id, run_id, failed)
            if text is None and failed and ours:
                text = f"{', '.join(failed)} failed without a word, as when its process is killed: see its log"
            if text is not None:
                _store(connection, key, note_of(text, dag_id))
    except Exception:
        logging.getLogger(__name__).exception("the note of run %s was not written", run_id)


def _failed_tasks(connection: "Connection", dag_id: str, run_id: str) -> list[str]:
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select

    failed = select(TaskInstance.task_id).where(
        TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.state == "failed"
    )
    return sorted(connection.scalars(failed))


def _left_note(connection: "Connection", dag_id: str, run_id: str, failed: Sequence[str]) -> str | None:
    """The note that a task of the run left last; of a run that failed, one of the ``failed`` tasks."""
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    wanted = [XComModel.dag_id == dag_id, XComModel.run_id == run_id, XComModel.key == KEY]
    if failed:
        wanted.append(XComModel.task_id.in_(failed))
    row = connection.execute(select(XComModel.value).where(*wanted).order_by(XComModel.timestamp.desc())).first()
    return None if row is None else str(XComModel.deserialize_value(row))


def _store(connection: "Connection", key: int, text: str) -> None:
    from airflow.models.dagrun import DagRunNote
    from sqlalchemy import insert, select, update

    row = connection.execute(select(DagRunNote.user_id).where(DagRunNote.dag_run_id == key)).first()
    values = {"content": text, "updated_at": datetime.now(UTC)}
    if row is None:
        connection.execute(insert(DagRunNote).values(dag_run_id=key, created_at=datetime.now(UTC), **values))
    elif row.user_id is None:
        connection.execute(update(DagRunNote).where(DagRunNote.dag_run_id == key).values(**values))
