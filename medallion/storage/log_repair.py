"""Repair checkpoints of a Delta log that are damaged or missing: their content is read from the entries.

A checkpoint is derived from the entries before it, so nothing is lost while these exist.
"""

import logging
from collections.abc import Mapping, Sequence
from threading import Lock

from medallion.errors import MedallionError
from medallion.storage import files
from medallion.storage.damage import checkpoints_in, commits_in, hinted_checkpoint, is_checkpoint, is_commit
from medallion.storage.files import Place

_LOGGER = logging.getLogger(__name__)
_HINT = "_last_checkpoint"
_repairs: list[tuple[str, str]] = []  # folder and note, until they are recorded in the event log
_repairing = Lock()


def repair_checkpoints(folder: Place) -> str | None:
    """Remove checkpoints of the table in ``folder`` that cannot be read, if the entries contain all of their content.

    Returns what was wrong; None if nothing is wrong, or if entries are missing and so nothing was changed.
    """
    with _repairing:
        try:
            wrong, gone = _damaged_checkpoints(folder)
            for place, judged in gone.items():
                if _stamp(place) == judged:  # otherwise another process has rewritten it in the meantime
                    place.unlink(missing_ok=True)
        except (OSError, MedallionError):  # proves no damage, or this account has no write permission
            return None
    return wrong


def record_repair(folder: Place, wrong: str) -> None:
    """Log a warning that the log of the table in ``folder`` was repaired, and keep it for the event log."""
    note = f"{wrong} in the log of {folder}: read from its entries, and written again"
    _LOGGER.warning("%s", note)
    _repairs.append((str(folder), note))


def take_repairs() -> Sequence[tuple[str, str]]:
    """Return the folder and the note of each repair since the last call."""
    taken = _repairs[:]
    del _repairs[: len(taken)]
    return taken


def _stamp(place: Place) -> tuple[float, int] | None:
    """Return values that change when a file is written again; None if it does not exist."""
    try:
        stat = place.stat()
    except FileNotFoundError:
        return None
    return stat.st_mtime, stat.st_size


def _damaged_checkpoints(folder: Place) -> tuple[str | None, dict[Place, tuple[float, int] | None]]:
    """Return what is wrong with the newest checkpoints, and the files to remove so that entries are read instead.

    Each file comes with its stamp from before it was checked. Nothing is returned if entries are missing.
    """
    names = {place.name: place for place in (folder / "_delta_log").iterdir()}
    stamps = {place: _stamp(place) for name, place in names.items() if "checkpoint" in name}
    commits, checkpoints = commits_in(names), checkpoints_in(names)
    hinted = hinted_checkpoint(names.get(_HINT))
    wrong, gone, base = None, list[Place](), -1
    if hinted is not None and hinted not in checkpoints:
        wrong = f"checkpoint {hinted} is missing"
        gone += [names[_HINT], *_checksums(names, hinted)]
    for version in sorted(checkpoints, reverse=True):
        if all(map(is_checkpoint, checkpoints[version])):
            base = version
            break
        wrong = f"checkpoint {version} is damaged"
        gone += [*checkpoints[version], *_checksums(names, version)]
        if _HINT in names and names[_HINT] not in gone:
            gone.append(names[_HINT])
    return (wrong, {place: stamps.get(place) for place in gone}) if wrong and _are_whole(commits, base) else (None, {})


def _checksums(names: Mapping[str, Place], version: int) -> list[Place]:
    """Return the checksums that Hadoop left beside a checkpoint; it would compare them with the rewritten one."""
    return [place for name, place in names.items() if name.startswith(f".{version:020}.checkpoint")]


def _are_whole(commits: Mapping[int, Place], base: int) -> bool:
    """Whether every entry after ``base`` exists and can be parsed."""
    newest = max(commits, default=-1)
    versions = range(base + 1, newest + 1)
    return (
        newest >= 0
        and all(v in commits for v in versions)
        and all(files.each(is_commit, [commits[version] for version in versions]))
    )
