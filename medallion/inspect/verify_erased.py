"""Proving that persons are in no byte of a lake: every file of it is read, whatever a log says of it."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from medallion.inspect.column_lineage import ColumnOf
from medallion.inspect.person_search import Person, every_file, is_below, where_found
from medallion.inspect.personal_columns import subject_columns
from medallion.model.registry import Registry
from medallion.storage.files import Place
from medallion.storage.lake import Lake


@dataclass(frozen=True)
class Trace:
    """A file in which a person is found, by its path in the lake, and where in it."""

    path: str
    where: str


def names_of_subjects(tables: Registry) -> tuple[str, ...]:
    """Every name of a column that holds subjects."""
    return tuple(sorted({column.column for column in subject_columns(tables)}))


def persons_by_folder(lake: Lake, tables: Registry, person: Person) -> dict[str, Person]:
    """By folder of each table of the project, ``person`` with that table's own columns of subjects.

    Another column of the same name, as a key that every table calls id, is nobody's.
    """
    columns = subject_columns(tables)
    return {str(lake.folder(table.name)): replace(person, columns=_columns_of(table.name, columns)) for table in tables}


def _columns_of(table: str, columns: Collection[ColumnOf]) -> frozenset[str]:
    return frozenset(column.column for column in columns if column.table == table)


def folder_of_table(place: Place, root: Place, known: dict[Place, Place | None]) -> Place | None:
    """The folder of the Delta table that a file is of; None for a file beside the tables. known: of other files."""
    folder = place.parent
    if folder in known:
        return known[folder]
    found: Place | None = None
    if "_delta_log" in folder.parts[len(root.parts) :]:
        while folder.name != "_delta_log":
            folder = folder.parent
        found = folder.parent
    elif is_below(folder, root):
        found = folder if any(True for _ in (folder / "_delta_log").glob("*")) else folder_of_table(folder, root, known)
    known[place.parent] = found
    return found


def traces(lake: Lake, tables: Registry, person: Person) -> Iterator[Trace]:
    """Yield each file of the lake in which ``person`` is, with the place in it; every file is read."""
    root, known = lake.at(lake.root), dict[Place, Place | None]()
    by_folder = persons_by_folder(lake, tables, person)
    for place in every_file(root):
        folder = folder_of_table(place, root, known)
        sought = person if folder is None else by_folder.get(str(folder), person)
        if (where := where_found(place, sought)) is not None:
            yield Trace("/".join(place.parts[len(root.parts) :]), where)
