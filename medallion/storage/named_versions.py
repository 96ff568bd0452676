"""A table as a release names it: one version of one Delta table, with the table's id and the commit of that version.

A version number alone could have other rows: numbers begin again at 0 when a table is rebuilt, and are given again when
its folder was restored from a backup.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from medallion.errors import MedallionError
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.lake import SET_ASIDE_STAMP, Lake, open_table, table_id
from medallion.storage.log_entries import identity_at

if TYPE_CHECKING:
    from deltalake import DeltaTable


class TableRebuilt(MedallionError):
    """The table with this name is not the one in the release."""


@dataclass(frozen=True)
class NamedVersion:
    """One version of a table.

    table_id: None in a release from before ids were recorded; a table created after ``published_at`` is then another
    one. commit: the identity of the commit that made the version; None in a release from before these were recorded,
    or if its log entry no longer existed.
    """

    table: str
    version: int
    table_id: str | None
    published_at: datetime
    commit: str | None = None

    def is_in(self, delta: "DeltaTable") -> bool:
        """Whether ``delta`` is this table, at any version."""
        if self.table_id is not None:
            return table_id(delta) == self.table_id
        created = delta.metadata().created_time
        return created is None or created <= self.published_at.timestamp() * 1000

    def is_other_commit_in(self, folder: Place) -> bool:
        """Whether another commit than the named one made this version of the table in ``folder``."""
        return self.commit is not None and identity_at(folder, self.version) not in {None, self.commit}


def open_current(lake: Lake, target: NamedVersion) -> "DeltaTable":
    """Open the table at that version, from its usual folder.

    Raises TableRebuilt if that folder now has another table, or the version was made by another commit; MedallionError
    if the version cannot be read.
    """
    path = lake.path(target.table)
    try:
        delta = lake.opened(path, target.version)
    except MedallionError:
        newest = lake.opened(path)  # a rebuilt table may not have that many versions yet
        if target.is_in(newest):
            raise
        delta = newest
    if not target.is_in(delta):
        raise TableRebuilt(
            f"{target.table} was rebuilt since the release that names version {target.version} of it:"
            f" {path} is another table now"
        )
    if target.is_other_commit_in(lake.folder(target.table)):
        raise TableRebuilt(
            f"version {target.version} of {target.table} is no longer the commit that the release names: somebody"
            f" restored {path} from a backup"
        )
    return delta


def how_it_went_back(lake: Lake, target: NamedVersion) -> str | None:
    """Say how a table differs from the published one because its folder was restored from a backup; else None.

    The table then ends before the version of ``target``, or another commit made that version.
    """
    folder = lake.folder(target.table)
    is_other = target.is_other_commit_in(folder)
    if not is_other and (folder / "_delta_log" / f"{target.version:020}.json").exists():
        return None
    try:
        delta = lake.open(lake.path(target.table))
    except MedallionError:  # a damaged log is reported and repaired when the table is read
        return None
    if delta is None or not target.is_in(delta):  # rebuilt, not restored
        return None
    if delta.version() < target.version:
        return f"went back to version {delta.version()}"
    return f"has another commit at version {target.version}" if is_other else None


def open_named(lake: Lake, target: NamedVersion) -> "DeltaTable":
    """Open the table at that version, from its usual folder or one that was set aside.

    Raises as open_current does.
    """
    try:
        return open_current(lake, target)
    except MedallionError as reason:
        for folder in set_aside_folders(lake, target.table):
            if (delta := _open_aside(folder, target)) is not None:
                return delta
        raise reason


def has_version(folder: Place, target: NamedVersion) -> bool:
    """Whether a folder that was set aside has that version, made by the named commit."""
    return _open_aside(folder, target) is not None


def _open_aside(folder: Place, target: NamedVersion) -> "DeltaTable | None":
    try:
        delta = open_table(folder, target.version)
    except MedallionError:
        return None
    is_meant = delta is not None and target.is_in(delta) and not target.is_other_commit_in(folder)
    return delta if is_meant else None


def moment_set_aside(stamp: str) -> datetime:
    """Return when a folder was set aside, by the end of its name; now, if the name has another form."""
    try:
        return datetime.strptime(stamp, SET_ASIDE_STAMP).replace(tzinfo=UTC)
    except ValueError:
        return datetime.now(UTC)


def set_aside_folders(lake: Lake, table: str = "") -> Iterator[Place]:
    """Yield the folders in which versions of ``table``, or of any table, were set aside, the newest of each first."""
    yield from reversed(files.glob(lake.at(lake.ops("damaged")), f"{table or '*'}-*"))
