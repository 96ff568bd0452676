"""Erase persons outside of the tables: in landed, corrected and rejected lines, events, reports and kept state."""

import json
from collections.abc import Iterable
from dataclasses import replace

from medallion.checks import report_store
from medallion.ingest.erased_lines import LineCleaner, clean_file
from medallion.ingest.erased_subjects import subject_text
from medallion.ingest.hour_files import source_path
from medallion.ingest.ledger import known_manifest, read_manifest, write_manifest
from medallion.ingest.parts import Part
from medallion.ingest.source import Landed
from medallion.inspect.person import Person
from medallion.model.kept_text import PREFIX
from medallion.model.table import Feed
from medallion.ops.check_records import read_check_records, write_check_record
from medallion.pipeline.driver import Driver
from medallion.pipeline.erase_plan import Plan
from medallion.sql_text import text_literal
from medallion.storage import files
from medallion.storage.delta_writes import properties
from medallion.storage.files import Place
from medallion.storage.lake import Lake

ERASED = "erased"  # in place of a removed text


def clean_landed(driver: Driver, feed: Feed, hour: str, plan: Plan) -> None:
    """Rewrite the landed file of a feed and an hour; the manifest is written first, so that a crash can be repaired."""
    lake = driver.lake
    place = lake.landing / feed.topic / f"{hour}.json"
    if (manifest := read_manifest(lake, hour)) is None or feed.topic not in manifest.files:
        place.unlink()  # left by a landing that was cut short: the hour lands again
        return

    def record(cleaned: Landed, lines: int) -> None:
        known = known_manifest(lake, hour)
        former = known.files[feed.topic]
        parts = former.parts or (Part(source_path(feed, hour), former.bytes, former.sha256, lines),)
        write_manifest(lake, replace(known, files={**known.files, feed.topic: replace(cleaned, parts=parts)}))

    clean_file(place, _cleaner(feed, plan), record)


def clean_corrections(place: Place, feed: Feed, plan: Plan) -> None:
    """Rewrite corrected lines; a dropped line becomes empty, so that the line that it replaces is skipped."""
    cleaner, content = _cleaner(feed, plan), files.read_json(place) or {}
    lines = {number: cleaner.clean_text(raw) for number, raw in content.get("lines", {}).items()}
    files.write_json(place, content | {"lines": {number: raw or "" for number, raw in lines.items()}})


def clean_quarantine(lake: Lake, feed: Feed, plan: Plan) -> int:
    """Delete the lines of a feed in quarantine that are about a person, and return their number."""
    delta = lake.open(lake.quarantine(feed.topic))
    if delta is None:
        return 0
    person, cleaner, lines = plan.person_in_lines_of(feed), _cleaner(feed, plan), dict[str, list[int]]()
    columns = ["hour", "line_number", "raw", "reason", "file"]
    for batch in delta.to_pyarrow_dataset().to_batches(columns=columns, batch_size=4_096):
        for row in batch.to_pylist():
            is_about_person = (
                person.is_in(row["raw"]) or person.is_in(row["reason"]) or cleaner.clean_text(row["raw"]) != row["raw"]
            )
            if is_about_person:
                lines.setdefault(row["hour"], []).append(row["line_number"])
    for hour, numbers in lines.items():
        condition = f"hour = {text_literal(hour)} AND line_number IN ({', '.join(map(str, sorted(numbers)))})"
        delta.delete(condition, commit_properties=properties(upon=delta))
    return sum(map(len, lines.values()))


def clean_events(lake: Lake, person: Person) -> int:
    """Remove the details of events that name a person, in the table and in waiting files; return their number."""
    delta, changed = lake.open(lake.event_log), 0
    if delta is not None:
        event_ids = set[str]()
        for batch in delta.to_pyarrow_dataset().to_batches(columns=["event_id", "details"], batch_size=4_096):
            event_ids |= {
                row["event_id"] for row in batch.to_pylist() if row["details"] and person.is_in(row["details"])
            }
        if event_ids:
            ids = ", ".join(map(text_literal, sorted(event_ids)))
            note = json.dumps({"note": ERASED})
            delta.update(
                updates={"details": f"'{note}'"},
                predicate=f"event_id IN ({ids})",
                commit_properties=properties(upon=delta),
            )
        changed += len(event_ids)
    for place in files.glob(lake.at(lake.ops("")), "event_log.*.waiting"):
        rows = [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines() if line.strip()]
        rows_about_person = [row for row in rows if person.is_in(json.dumps(row))]
        for row in rows_about_person:
            row["details"] = json.dumps({"note": ERASED})
        if rows_about_person:
            files.write_text(place, "".join(f"{json.dumps(row)}\n" for row in rows))
        changed += len(rows_about_person)
    return changed


def clean_check_records(driver: Driver, person: Person) -> None:
    """Remove what records of failed checks quote, if that names a person."""
    for record in read_check_records(driver.lake, (*driver.tables.layers, "validation")).values():
        if record is not None and any(person.is_in(f"{f.observed} {f.origin}") for f in record.failures):
            failures = tuple(replace(failure, observed=ERASED, origin="") for failure in record.failures)
            write_check_record(driver.lake, replace(record, failures=failures))


def remove_kept_state(driver: Driver) -> list[str]:
    """Remove the kept state of relations that are computed, directly or not, from a feed about persons; return paths.

    A value stays in such a log of differences after its rows are deleted, and its columns have no names by which a
    person could be found. The next refresh rebuilds the state.
    """
    about_persons = {feed.name for feed in driver.tables.feeds if feed.subject}
    about_persons |= {log.name for log in driver.tables.logs if log.of in about_persons}
    for table in driver.tables:  # each after what it reads
        if not about_persons.isdisjoint(table.inputs):
            about_persons.add(table.name)
    gone = []
    for folder in files.glob(driver.lake.aggregate_states, f"*.{PREFIX}*"):
        table_name = folder.name.partition(".")[0]
        if table_name in about_persons or table_name not in driver.tables.tables:
            files.remove_tree(folder)
            gone.append(str(folder))
    return gone


def remove_state_of(lake: Lake, tables: Iterable[str]) -> None:
    """Remove the aggregate state of some tables; the next refresh rebuilds it."""
    for name in tables:
        for folder in files.glob(lake.aggregate_states, f"{name}.*"):
            files.remove_tree(folder)


def remove_reports(lake: Lake, finds: Iterable[Place]) -> int:
    """Remove pages and results of checks that quote a person, rewrite the index, and return the number of files."""
    gone = 0
    for place in finds:
        twins = (place, place.with_suffix(".json"), place.with_suffix(".html"))
        for file in dict.fromkeys(twins if report_store.DATA_DOCS not in place.parts else (place,)):
            if file.exists() and file.name not in {report_store.INDEX_PAGE, report_store.INDEX_LINES}:
                file.unlink()
                gone += 1
    if gone:
        report_store.write_index(lake.reports)
    return gone


def _cleaner(feed: Feed, plan: Plan) -> LineCleaner:
    subjects = (
        {subject_text(key) for key in plan.keys.get(feed.subject_of, ())} if feed.subject_of else {*plan.subjects}
    )
    person = plan.person
    return LineCleaner(feed, lambda value: subject_text(value) in subjects, person.needles, person.hints)
