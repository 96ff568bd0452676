"""Verify that no file of a lake contains erased persons: every file is read, whatever a log says about it."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from medallion.inspect.column_lineage import ColumnOf
from medallion.inspect.person import Person
from medallion.inspect.person_search import every_file, find_person, is_below
from medallion.inspect.personal_columns import subject_columns
from medallion.model.registry import Registry
from medallion.storage.files import Place
from medallion.storage.lake import Lake


@dataclass(frozen=True)
class Trace:
    """A file in which a person was found: its path in the lake, and the location within the file."""

    path: str
    where: str


def names_of_subjects(tables: Registry) -> tuple[str, ...]:
    """Return the names of all columns that hold subjects."""
    return tuple(sorted({column.column for column in subject_columns(tables)}))


def persons_by_folder(lake: Lake, tables: Registry, person: Person) -> dict[str, Person]:
    """Return, by folder of each table of the project, ``person`` with only that table's own subject columns.

    A column of the same name in another table, such as a key called id, does not identify a person.
    """
    columns = subject_columns(tables)
    return {str(lake.folder(table.name)): replace(person, columns=_columns_of(table.name, columns)) for table in tables}


def _columns_of(table: str, columns: Collection[ColumnOf]) -> frozenset[str]:
    return frozenset(column.column for column in columns if column.table == table)


def folder_of_table(place: Place, root: Place, known: dict[Place, Place | None]) -> Place | None:
    """Return the folder of the Delta table of a file; None for a file outside of tables. known: a cache by folder."""
    folder = place.parent
    if folder in known:
        return known[folder]
    table_folder: Place | None = None
    if "_delta_log" in folder.parts[len(root.parts) :]:
        while folder.name != "_delta_log":
            folder = folder.parent
        table_folder = folder.parent
    elif is_below(folder, root):
        table_folder = (
            folder if any(True for _ in (folder / "_delta_log").glob("*")) else folder_of_table(folder, root, known)
        )
    known[place.parent] = table_folder
    return table_folder


def traces(lake: Lake, tables: Registry, person: Person) -> Iterator[Trace]:
    """Yield each file of the lake that contains ``person``, with the location within it; every file is read."""
    root, known = lake.at(lake.root), dict[Place, Place | None]()
    by_folder = persons_by_folder(lake, tables, person)
    for place in every_file(root):
        folder = folder_of_table(place, root, known)
        sought = person if folder is None else by_folder.get(str(folder), person)
        if (where := find_person(place, sought)) is not None:
            yield Trace("/".join(place.parts[len(root.parts) :]), where)
