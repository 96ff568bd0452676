"""The note of each run in Airflow's list of runs: what the run did, or why it did nothing.

A task cannot write the note of its run. It leaves the text as an XCom, and a listener in the scheduler writes it as the
note when the run ends.
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
MAX_CHARACTERS = 1000  # size of the column in Airflow's database
_MAX_LEFT = 100_000  # characters of the text that a task leaves
TAG = "medallion"
_LINK_PLACE = "\u241e"  # Markdown leaves this character alone, and no message contains it
_REPORT = re.compile(r"see \S*/reports/validation/(?P<name>(?!\S*\.\.)\S+\.html)")  # never outside that folder


def leave_note(ti: Any, text: str) -> None:
    """Leave a note for the run of task instance ``ti``, and log it; the last note that is left wins."""
    logging.getLogger(__name__).info("note of this run: %s", text)
    ti.xcom_push(key=KEY, value=text[:_MAX_LEFT])


def note_of(text: str, dag_id: str = "") -> str:
    """Return ``text`` as a note, escaped because Airflow renders notes as Markdown.

    A validation report that the text names becomes a link to its page. A note that is too long is shortened in the
    middle, because it begins with what happened and ends with what to do.
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
    """Return a link to the page of a validation report; the page derives the project from ``dag_id``."""
    from airflow.configuration import conf

    root = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    query = f"?dag_id={quote(dag_id)}" if dag_id else ""
    return f"see [its validation report]({root}/medallion/reports/file/{quote(report)}{query})"


def _ends_in_escape(text: str) -> bool:
    """Check whether a text ends in a backslash that escapes the character after it."""
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


@contextmanager
def noting_failures(ti: Any, step: str = "") -> Iterator[None]:
    """When the block fails or skips, leave the reason, prefixed with ``step``, as the run's note."""
    try:
        yield
    except AirflowException as error:
        leave_note(ti, f"{step}: {error}" if step else str(error))
        raise


class NotesOfRuns:
    """The listener that writes notes. Its errors are logged: a note must not fail a run, let alone the scheduler."""

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        """Write the note of a run that succeeded or had nothing to do."""
        write_note(dag_run)

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        """Write the note of a run that failed."""
        write_note(dag_run)


def write_note(dag_run: Any) -> None:
    """Write the note that the tasks of a run left, unless a person has written one.

    This uses the scheduler's own connection, because another one would wait for the run's row, which the scheduler has
    locked. It works in a savepoint, because the scheduler's session must not be committed or broken by an error here.
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
                text = f"{', '.join(failed)} failed: its log says why, unless its process was killed"
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
    """Return the last note that a task of the run left; if tasks ``failed``, the last one that these left."""
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
