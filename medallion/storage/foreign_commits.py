"""Find commits of somebody else in a table of the lake, and what they changed.

A commit of ours names the fencing number of its writer and the version that its writer had seen. Writers read the log
first, so a commit made directly on the version before it confirms everything up to there: if nobody else changed the
table, only one entry is read. A copy of our metadata is recognised because it names a version that a commit of ours
already follows.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError, advice
from medallion.hours import hour_from_number
from medallion.storage import fence
from medallion.storage.files import Place
from medallion.storage.foreign_changes import ForeignCommit, foreign_commit
from medallion.storage.log_entries import LEDGER, LogEntry, read_entry

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from medallion.storage.lake import Lake

ADOPTED = "adopted"  # in the metadata of a commit of ours: the commits of others that it accepts as changes
INPUTS = "inputs"  # in the metadata of a commit of ours to a computed table: the version of each input
UPON = "upon"  # in the metadata of a commit of ours: the version of the table that its writer had seen
_ORIGIN_COMMITS = 32  # most commits without metadata to read through, as in an older lake
# Operations of our commits in a lake from before these named the version that they were made upon.
_FORMER_OPERATIONS = frozenset(
    ("WRITE", "MERGE", "DELETE", "OPTIMIZE", "RESTORE", "VACUUM START", "VACUUM END", "CREATE TABLE")
) | {"ADD COLUMN", "CHANGE COLUMN", "SET TBLPROPERTIES", "CREATE OR REPLACE TABLE AS SELECT"}


class ChangedByOthers(MedallionError):
    """Somebody else changed a table. The message says what was changed, when and by whom, and what to do."""


class ComputedTableChanged(ChangedByOthers):
    """Somebody else changed a computed table: the next refresh of its layer recomputes it."""


@dataclass(frozen=True)
class Provenance:
    """Where the rows of a table come from.

    version: of the newest commit of ours; None if none is known. origin: its metadata. changes: commits in which others
    have changed rows or columns since, oldest first. upkeep: their other commits. identity: of the commit at the
    requested version; None if its entry is gone.
    """

    version: int | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[ForeignCommit, ...] = ()
    upkeep: tuple[ForeignCommit, ...] = ()
    identity: str | None = None

    def describe(self) -> str:
        """Return a description of what others changed, for a message."""
        return "; ".join(commit.describe() for commit in self.changes)


def stamped(metadata: str | None, delta: "DeltaTable | None") -> str:
    """Return the JSON ``metadata`` of a commit with its stamp, for Spark, whose commits have no other metadata."""
    return json.dumps(json.loads(metadata or "{}") | stamp(delta))


def stamp(delta: "DeltaTable | None") -> dict[str, int]:
    """Return what marks a commit as ours: the fencing number, and the version of ``delta`` that it follows.

    Raises LeaseLost if this process is no longer the lake's writer.
    """
    return fence.stamp() | ({} if delta is None else {UPON: delta.version()})


def provenance(folder: Place, version: int) -> Provenance:
    """Find the newest commit of ours in the table in ``folder`` up to ``version``, and the commits of others since."""
    entries = [*islice(_entries(folder, version), 1)]
    lineage = _provenance(folder, chain(entries, _entries(folder, version - 1)))
    return replace(lineage, identity=entries[0].identity) if entries else lineage


def _provenance(folder: Place, entries: Iterable[LogEntry]) -> Provenance:
    """Find the provenance from log ``entries``, the newest first."""
    foreign: list[LogEntry] = []
    for entry in entries:
        if (upon := _upon(entry)) is None:
            foreign.append(entry)
            continue
        between = [*_entries(folder, entry.version - 1, upon + 1)]
        if any(_upon(other) is not None for other in between):  # a commit of ours follows that version already
            foreign.append(entry)
            continue
        return _standing(folder, entry, [*foreign, *between])
    if not foreign or foreign[-1].version == 0:
        return Provenance()  # no commit of ours exists yet, so none of these changed our rows
    return _standing(folder, None, foreign)


def require_ours(lake: "Lake", table: str, version: int, *, has_hours: bool = True) -> Provenance:
    """Return where the rows of ``table`` at ``version`` come from.

    has_hours: whether restating an hour can restore its rows; for a change log it cannot.

    Raises ChangedByOthers if somebody else has changed the table, ComputedTableChanged if a refresh repairs that.
    """
    lineage = provenance(lake.folder(table), version)
    if lineage.changes:
        changed = f"{table} was changed by somebody else: {lineage.describe()}"
        if INPUTS in lineage.origin:
            raise ComputedTableChanged(f"{changed}; {advice.recompute(table)}")
        ways_out = advice.adopt_or_discard(table, lineage.version, lake.applied_hour(table) if has_hours else None)
        raise ChangedByOthers(f"{changed}; nothing was written: {ways_out}")
    return lineage


def rewritten(name: str, folder: Place, delta: "DeltaTable", *, is_shared: bool = False) -> str | None:
    """Return a message if somebody else changed a table that processes only append to or clean up; else None.

    is_shared: whether several processes of the lake append to the table. Appending is then no change, and the message
    does not offer to adopt or discard anything.
    """
    lineage = provenance(folder, delta.version())
    commits = [commit for commit in lineage.changes if not is_shared or commit.operation != "WRITE" or commit.removed]
    if not commits:
        return None
    changed = "; ".join(commit.describe() for commit in commits)
    ways_out = f"; {advice.adopt_or_discard(name, lineage.version, None)}" if not is_shared else ""
    return f"{name} was changed by somebody else: {changed}{ways_out}"


def adopted_between(folder: Place, oldest: int, newest: int) -> list[str]:
    """Describe the commits of others that were adopted after version ``oldest`` up to ``newest``, in order."""
    adopted: dict[int, str] = {}  # by version, because upkeep repeats the metadata of the commit before
    for entry in _entries(folder, newest, oldest + 1):
        for record in entry.metadata.get(ADOPTED, ()):
            if record["version"] > oldest:
                adopted[record["version"]] = ForeignCommit.of_record(record).describe()
    return [adopted[version] for version in sorted(adopted)]


def _entries(folder: Place, newest: int, oldest: int = 0) -> Iterator[LogEntry]:
    """Yield log entries, the newest first, until one no longer exists."""
    for version in range(newest, oldest - 1, -1):
        try:
            yield read_entry(folder, version)
        except (FileNotFoundError, ValueError):
            return


def _upon(entry: LogEntry) -> int | None:
    """Return the version that a commit was made upon, if it is one of ours; the parts of its stamp must agree."""
    info, metadata = entry.info, entry.metadata
    stamps = [{str(part[name]) for part in (info, metadata) if name in part} for name in (UPON, fence.KEY)]
    if any(len(values) > 1 for values in stamps) or not _ledger_agrees(entry):
        return None
    upon, fences = ("".join(values) for values in stamps)
    is_whole = all(number.removeprefix("-").isdecimal() for number in (upon, fences) if number)
    if upon and is_whole:
        # A commit of ours by delta-rs has the stamp in its commit info too; if only the metadata has it, it is a copy.
        is_copy = UPON not in info and str(info.get("engineInfo", "")).startswith("delta-rs")
        seen = int(upon) + (entry.operation == "VACUUM END")  # its metadata is that of VACUUM START, one commit before
        return seen if seen < entry.version and not is_copy else None
    is_former = fences or not {"hour", "query"}.isdisjoint(metadata)
    if is_whole and is_former and entry.operation in _FORMER_OPERATIONS:
        return entry.version - 1
    return None


def _ledger_agrees(entry: LogEntry) -> bool:
    """Whether the hour in a commit's metadata is the hour that its ledger entry records as applied."""
    hour = entry.metadata.get("hour")
    numbers = [action.get("version") for action in entry.actions("txn") if action.get("appId") == LEDGER]
    return not numbers or not hour or not numbers[-1] or hour_from_number(int(numbers[-1])) == hour


def _standing(folder: Place, ours: LogEntry | None, foreign: Sequence[LogEntry]) -> Provenance:
    """Return the provenance for our newest commit and the ``foreign`` ones since, the newest first."""
    commits = [foreign_commit(folder, entry) for entry in reversed(foreign)]
    return Provenance(
        None if ours is None else ours.version,
        {} if ours is None else _origin(folder, ours),
        tuple(commit for commit in commits if commit.changes),
        tuple(commit for commit in commits if not commit.changes),
    )


def _origin(folder: Place, ours: LogEntry) -> Mapping[str, Any]:
    """Return the metadata of a commit of ours; if it has none, that of the last one before it that has some."""
    if ours.metadata:
        return ours.metadata
    for entry in _entries(folder, ours.version - 1, max(0, ours.version - _ORIGIN_COMMITS)):
        if entry.metadata and _upon(entry) is not None:
            return entry.metadata
    return {}
