"""Forecast what erasing persons would do: rows, releases, files and bytes, and what it cannot reach. Read-only."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medallion.errors import UsageError
from medallion.ingest.erase_rows import PersonRows, find_rows
from medallion.ingest.erased_subjects import parse_subjects
from medallion.inspect.person import Person
from medallion.inspect.person_search import every_file, find_person
from medallion.inspect.personal_columns import subject_columns
from medallion.inspect.verify_erased import names_of_subjects
from medallion.model.registry import Registry
from medallion.model.table import Table
from medallion.ops.holds import held_releases
from medallion.pipeline.erase_history import releases_naming
from medallion.pipeline.erase_plan import Plan
from medallion.pipeline.erase_search import Finds, copies_without_subject, search
from medallion.storage.delta_writes import rows_having
from medallion.storage.files import Place, in_bucket
from medallion.storage.lake import Lake


@dataclass
class Forecast:
    """What would be done.

    rows: rows about the persons, by table. ended: tables whose history would be removed. releases: the releases that
    would be dropped. held: the names under which some of them are held. files, bytes: to be rewritten or removed.
    outside: files of the source.
    """

    rows: dict[str, int] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    releases: list[int] = field(default_factory=list)
    held: dict[int, list[str]] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    outside: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield the lines that ``medallion erase --dry-run`` prints."""
        by_table = ", ".join(f"{rows:,} of {table}" for table, rows in self.rows.items())
        yield f"rows about them: {by_table or 'none'}"
        yield f"tables whose history would be removed: {', '.join(self.ended) or 'none'}"
        yield f"releases that would be dropped: {', '.join(map(str, self.releases)) or 'none'}"
        for number, names in self.held.items():
            yield f"release {number} is held as {' and '.join(names)}: only --force drops it"
        yield f"files with them: {self.files:,}, {self.bytes / 1e6:,.1f} MB"
        yield from (f"not reached, the source's own: {file}" for file in self.outside)


def forecast(lake: Lake, tables: Registry, subjects: Sequence[str], values: Collection[str], source: str) -> Forecast:
    """Return what erasing ``subjects`` would do. Arguments and errors as for ``erase``; source: the source's place."""
    known = parse_subjects(tables, subjects)
    plan = Plan("", "", tuple(known), names_of_subjects(tables), tuple(values))
    person_rows = find_rows(lake, tables, known)
    plan = plan.with_identifiers(person_rows)
    finds = search(lake, tables, plan)
    ended = _ended(lake, tables, finds, person_rows)
    dropped = releases_naming(lake, ended)
    places = [place for own in (*finds.tables.values(), finds.beside) for place in own]
    return Forecast(
        {name: count for name, count in (person_rows.rows | _computed_rows(lake, tables, known)).items() if count},
        sorted(ended),
        dropped,
        {number: names for number, names in held_releases(lake).items() if number in dropped},
        len(places),
        sum(place.stat().st_size for place in places),
        [*_at_source(source, plan.person)],
    )


def require_none_held(lake: Lake, tables: Registry, plan: Plan) -> None:
    """Raise UsageError if a release that the erasure would drop is held by name."""
    held = held_releases(lake)
    if not held:
        return
    person_rows = find_rows(lake, tables, plan.subjects)
    finds = search(lake, tables, plan.with_identifiers(person_rows))
    for number in releases_naming(lake, _ended(lake, tables, finds, person_rows)):
        if number in held:
            name, *_ = held[number]
            raise UsageError(
                f"nothing is erased: release {number} is held as {name} and has rows about them: run medallion release"
                f" unhold {name}, or give --force, which drops it"
            )


def _ended(lake: Lake, tables: Registry, finds: Finds, person_rows: PersonRows) -> set[str]:
    """Return the tables of the project whose history would be removed."""
    by_folder = {str(lake.folder(table.name)): table.name for table in tables}
    having = {by_folder[folder] for folder in finds.tables if folder in by_folder}
    having |= {name for name, count in person_rows.rows.items() if count}
    return having | copies_without_subject(tables, having)


def _computed_rows(lake: Lake, tables: Registry, subjects: Sequence[str]) -> dict[str, int]:
    """Return, by computed table, how many rows name one of the subjects."""
    import pyarrow as pa

    counts: dict[str, int] = {}
    for column in sorted(subject_columns(tables)):
        delta = lake.open(lake.path(column.table)) if isinstance(tables[column.table], Table) else None
        if delta is None:
            continue
        names = {field.name.lower(): field for field in pa.schema(delta.schema().to_arrow())}
        field_of = names.get(column.column)
        if field_of is None or not (pa.types.is_integer(field_of.type) or pa.types.is_string(field_of.type)):
            continue
        values = sorted(int(text) for text in subjects) if pa.types.is_integer(field_of.type) else sorted(subjects)
        rows = rows_having(delta, lake.folder(column.table), field_of.name, [*values], [field_of.name])
        counts[column.table] = max(counts.get(column.table, 0), len(rows))
    return counts


def _at_source(source: str, person: Person) -> list[str]:
    """Return the files of the source that name the persons; for a bucket, a note that it is not searched."""
    if in_bucket(source):
        return [f"{source}: a bucket, which is not looked through"]
    places: list[Place] = [*every_file(Path(source))] if Path(source).is_dir() else []
    return [str(place) for place in places if find_person(place, person) is not None]
