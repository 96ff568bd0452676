"""Each run's note says what it did, and writing it can do no harm to the scheduler."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dagrun import DagRun, DagRunNote
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.sqlalchemy import prohibit_commit
from sqlalchemy import create_engine, insert, text
from sqlalchemy.orm import Session

from medallion.airflow import notes
from medallion.airflow.notes import KEY, MAX_CHARACTERS, note_of, write_note


@pytest.fixture
def session() -> Iterator[Session]:
    """A session that may not commit, as the scheduler's while it looks after runs."""
    import_all_models()
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(DagRun(dag_id="hourly_refresh", run_id="a_run", run_type="manual", run_after=datetime.now(UTC)))
        session.commit()
        with prohibit_commit(session):
            yield session


def run_of(session: Session) -> DagRun:
    run = session.query(DagRun).one()
    run.dag = SimpleNamespace(tags={"medallion"})
    return run


def left(session: Session, task_id: str, note: str) -> None:
    values = {"dag_run_id": 1, "dag_id": "hourly_refresh", "run_id": "a_run", "task_id": task_id, "map_index": -1}
    session.execute(insert(XComModel).values(**values, key=KEY, value=note, timestamp=datetime.now(UTC)))


def failed(session: Session, task_id: str) -> None:
    # The column's other values do not matter here, and Airflow has many of them.
    columns = {column.name: "" for column in TaskInstance.__table__.columns if not column.nullable}
    known = {"dag_id": "hourly_refresh", "run_id": "a_run", "task_id": task_id, "state": "failed"}
    names = ", ".join(columns | known)
    marks = ", ".join(f":{name}" for name in columns | known)
    session.execute(text(f"INSERT INTO task_instance ({names}) VALUES ({marks})"), columns | known)


def test_the_note_that_was_left_last_is_the_note_of_the_run(session: Session) -> None:
    left(session, "land_changes", "waiting: hour 2025-11-30T01 is being refreshed")
    left(session, "validate", "2025-11-30T02, full: release 4")
    write_note(run_of(session))
    assert run_of(session).note == "2025-11-30T02, full: release 4"


def test_the_note_of_a_failed_run_is_that_of_its_failed_task(session: Session) -> None:
    left(session, "silver.check", "orders are red")
    left(session, "other", "went well")
    failed(session, "silver.check")
    write_note(run_of(session))
    assert run_of(session).note == "orders are red"


def test_text_from_outside_is_no_markdown_in_the_note(session: Session) -> None:
    name = "![x](http://evil.example/p.png) [Log in again](http://evil.example)"
    left(
        session, "validate", f"warnings: orders has a column {name} (in lines: 1)\n# www.evil.example <b> _x_ `y` a@b.c"
    )
    write_note(run_of(session))
    note = run_of(session).note
    assert note == (
        "warnings: orders has a column !\\[x\\](http:\u200b//evil.example/p.png)"
        " \\[Log in again\\](http:\u200b//evil.example) (in lines: 1)"
        " # www\u200b.evil.example \\<b> \\_x\\_ \\`y\\` a@\u200bb.c"
    )


@pytest.mark.parametrize(
    "text",
    [
        "2025-11-30T02, full: 3 rows of Bronze changed by 4 lines; release 4; no warnings",
        "hour 2025-11-30T01 is red: run medallion refresh --restate 2025-11-30T01 (in Airflow: trigger hourly_refresh)",
        "raise MEDALLION_MAX_BAD_LINES: /lake/landing/orders/2025-11-30T00.json",
    ],
)
def test_words_of_ours_stay_as_they_are_in_the_note(text: str) -> None:
    assert note_of(text) == text


@pytest.mark.parametrize("text", ["# a", "> a", "- a", "+ a", "= a", "1. a", "12) a"])
def test_note_that_begins_like_a_heading_or_list_is_escaped(text: str) -> None:
    assert re.match(r"\\[#>+=-]|\d+\\[.)]", note_of(text))


def test_note_leads_to_no_page_outside_the_reports() -> None:
    note = note_of("orders has a column see /reports/validation/../../../auth/logout.html")
    assert "](" not in note and "logout.html" in note


def test_a_task_that_was_killed_is_named(session: Session) -> None:
    left(session, "land_changes", "waiting: hour 2025-11-30T01 is being refreshed")
    failed(session, "silver.refresh")
    write_note(run_of(session))
    assert run_of(session).note.startswith("silver.refresh failed: its log says why, unless its process was killed")


def test_a_note_that_stands_is_renewed_unless_a_person_wrote_it(session: Session) -> None:
    left(session, "validate", "2025-11-30T02, full: release 4")
    run_of(session).note = "catching up"
    session.flush()
    write_note(run_of(session))
    session.expire_all()
    assert run_of(session).note == "2025-11-30T02, full: release 4"
    session.query(DagRunNote).one().user_id = "somebody"
    run_of(session).note = "my own words"
    session.flush()
    write_note(run_of(session))
    session.expire_all()
    assert run_of(session).note == "my own words"


def test_a_note_that_cannot_be_written_leaves_the_scheduler_s_session_as_it_was(
    session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left(session, "validate", "a note")
    run = run_of(session)
    monkeypatch.setattr(
        notes, "_store", lambda connection, *_: connection.execute(text("INSERT INTO nowhere VALUES (1)"))
    )
    write_note(run)
    assert "the note of run a_run was not written" in caplog.text
    run.state = "success"
    session.flush()
    assert run.run_id == "a_run", "it is still the session's"


@pytest.mark.parametrize(("base", "root"), [("http://localhost:8080", ""), ("https://host/airflow/", "/airflow")])
def test_a_note_leads_to_the_report_that_it_names(monkeypatch: pytest.MonkeyPatch, base: str, root: str) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    named = "bronze check failed; see /lake/reports/validation/2025-11-30T09/bronze-r-1.html"
    link = f"[its validation report]({root}/medallion/reports/file/2025-11-30T09/bronze-r-1.html)"
    assert note_of(named) == f"bronze check failed; see {link}"
    assert note_of("nothing to do; see the log") == "nothing to do; see the log"


def test_a_note_is_cut_to_what_the_column_takes() -> None:
    assert len(note_of("x" * 5000)) == MAX_CHARACTERS
    for length in range(MAX_CHARACTERS // 2 - 10, MAX_CHARACTERS // 2 + 10):
        note = note_of("x" * (length % 2) + "[" * length)
        assert len(note) <= MAX_CHARACTERS
        assert not re.search(r"(?<!\\)(\\\\)*\[", note), "a cut leaves no bracket without its escape"


def test_long_note_keeps_what_happened_and_what_to_do() -> None:
    note = note_of(f"silver check failed: {'x, ' * 900}then clear the failed task")
    assert len(note) == MAX_CHARACTERS
    assert note.startswith("silver check failed: ") and note.endswith("then clear the failed task")
