"""Search a lake for persons: the tables whose history must end, and files outside of tables.

Columns that cannot have them according to lineage are skipped; ``medallion erase --verify`` reads everything.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from medallion.ingest.erased_subjects import Registered, subject_text
from medallion.inspect.column_lineage import ColumnOf, column_lineage
from medallion.inspect.person import Person
from medallion.inspect.person_search import every_file, find_person, is_below
from medallion.inspect.personal_columns import personal_columns
from medallion.inspect.verify_erased import folder_of_table, persons_by_folder
from medallion.model.registry import Registry
from medallion.pipeline.erase_plan import Plan
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.lake import Lake


@dataclass
class Finds:
    """Where persons were found. tables: by folder of a Delta table, the files in it. beside: other files."""

    tables: dict[str, list[Place]] = field(default_factory=dict)
    beside: list[Place] = field(default_factory=list)


@dataclass(frozen=True)
class _Look:
    """One search of the files of a table. columns: the columns of Parquet files to search; None for all."""

    person: Person
    columns: frozenset[str] | None = None

    def finds(self, place: Place) -> bool:
        return find_person(place, self.person, self.columns) is not None


def search(lake: Lake, tables: Registry, plan: Plan) -> Finds:
    """Search every file of the lake that can have the persons of ``plan``."""
    own, looks = Registered(lake).folder, _looks(lake, tables, plan)
    folders, finds, usual = dict[Place, Place | None](), Finds(), (_Look(plan.person),)
    places = [place for place in every_file(lake.at(lake.root)) if not is_below(place, own)]
    of_table = {place: folder_of_table(place, lake.at(lake.root), folders) for place in places}
    looking = partial(_is_found, of_table=of_table, looks=looks, usual=usual)
    for place, is_found in zip(places, files.side_by_side(looking, places), strict=True):
        if is_found and (folder := of_table[place]) is not None:
            finds.tables.setdefault(str(folder), []).append(place)
        elif is_found:
            finds.beside.append(place)
    return finds


def copies_without_subject(tables: Registry, had_them: Collection[str]) -> set[str]:
    """Return the tables with columns that copy personal ones of the feeds among ``had_them``, or of their change logs.

    A name or a day of birth that others have too identifies nobody by itself, but old versions have it with the key of
    a row, so their history ends too.
    """
    feeds = {feed.name for feed in tables.feeds if feed.name in had_them}
    feeds |= {log.of for log in tables.logs if log.name in had_them}
    return {
        column.table
        for column, origins in personal_columns(tables).items()
        if any(origin.table in feeds for origin in origins)
    }


def _is_found(
    place: Place,
    of_table: Mapping[Place, Place | None],
    looks: Mapping[str, tuple[_Look, ...]],
    usual: tuple[_Look, ...],
) -> bool:
    return any(look.finds(place) for look in looks.get(str(of_table[place] or place.parent), usual))


def _looks(lake: Lake, tables: Registry, plan: Plan) -> dict[str, tuple[_Look, ...]]:
    """Return, by folder, the searches of its files: of each table, none without personal columns, and of lines."""
    personal = personal_columns(tables)
    looks: dict[str, tuple[_Look, ...]] = {}
    linked, persons = _linked(tables, plan), persons_by_folder(lake, tables, plan.person)
    for table in tables:
        columns = frozenset(
            personal_column.column for personal_column in personal if personal_column.table == table.name
        )
        folder = str(lake.folder(table.name))
        own = (_Look(persons[folder], columns),) if columns else ()
        looks[folder] = (*own, *linked.get(table.name, ()))
    for feed in tables.feeds:
        of_lines = (lake.landing / feed.topic, lake.corrections / feed.topic, lake.at(lake.quarantine(feed.topic)))
        looks |= {str(folder): (_Look(plan.person_in_lines_of(feed)),) for folder in of_lines}
    return looks


def _linked(tables: Registry, plan: Plan) -> dict[str, tuple[_Look, ...]]:
    """Return, by table, the searches for rows that refer to rows about persons, by the keys of the latter."""
    linked: dict[str, tuple[_Look, ...]] = {}
    for feed in tables.feeds:
        keys = plan.keys.get(feed.subject_of, ()) if feed.subject_of else ()
        if not keys:
            continue
        start = ColumnOf(feed.name, feed.subject.lower())
        for column in (start, *_copies_of(start, column_lineage(tables).copied)):
            person = Person(frozenset(map(subject_text, keys)), frozenset({column.column}))
            look = _Look(person, frozenset({column.column}))
            linked[column.table] = (*linked.get(column.table, ()), look)
    return linked


def _copies_of(start: ColumnOf, copied: Mapping[ColumnOf, Iterable[ColumnOf]]) -> Iterator[ColumnOf]:
    reached = {start}
    for column, origins in copied.items():  # each table after what it reads
        if not reached.isdisjoint(origins):
            reached.add(column)
            yield column
