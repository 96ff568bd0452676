"""Repair checkpoints of a Delta log that are cut or missing: read their content from the entries and write it again.

A checkpoint derives from the entries before it, so nothing is lost while these are kept.
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
_repairs: list[tuple[str, str]] = []  # folder and what was wrong, until somebody records them
_repairing = Lock()


def repair_checkpoints(folder: Place) -> str | None:
    """Remove checkpoints of the table in ``folder`` that cannot be read, where the entries hold all of it.

    Returns what was wrong; None where nothing is, or entries are missing: then nothing is changed.
    """
    with _repairing:
        try:
            wrong, gone = _damaged_checkpoints(folder)
            for place, judged in gone.items():
                if _stamp(place) == judged:  # otherwise another process has rewritten it meanwhile
                    place.unlink(missing_ok=True)
        except (OSError, MedallionError):  # which proves nothing, or may not be changed by this account
            return None
    return wrong


def record_repair(folder: Place, wrong: str) -> None:
    """Say, and keep for the event log, that the log of the table in ``folder`` was repaired."""
    note = f"{wrong} in the log of {folder}: read from its entries, and written again"
    _LOGGER.warning("%s", note)
    _repairs.append((str(folder), note))


def take_repairs() -> Sequence[tuple[str, str]]:
    """Return the folder and the note of each repair since this was last asked for."""
    taken = _repairs[:]
    del _repairs[: len(taken)]
    return taken


def _stamp(place: Place) -> tuple[float, int] | None:
    """What changes when a file is written again; None where it is gone."""
    try:
        stat = place.stat()
    except FileNotFoundError:
        return None
    return stat.st_mtime, stat.st_size


def _damaged_checkpoints(folder: Place) -> tuple[str | None, dict[Place, tuple[float, int] | None]]:
    """What is wrong with the newest checkpoints, and the files to be removed for the entries to be read instead, each
    with its stamp of before it was judged."""
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
    """The checksums that Hadoop left beside a checkpoint, and would compare with the one that is written again."""
    return [place for name, place in names.items() if name.startswith(f".{version:020}.checkpoint")]


def _are_whole(commits: Mapping[int, Place], base: int) -> bool:
    """Whether every entry after ``base`` is there and can be read."""
    newest = max(commits, default=-1)
    versions = range(base + 1, newest + 1)
    return (
        newest >= 0
        and all(v in commits for v in versions)
        and all(files.each(is_commit, [commits[version] for version in versions]))
    )
