"""Prove that a Delta log is damaged: only then may a table be set aside and rebuilt.

Failing to open a table proves nothing: a process may have too many open files, a disk or a service may fail for a
moment, or a newer writer may have created the table.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from medallion.errors import MedallionError
from medallion.storage.files import Place

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\b.*\.(parquet|json)")


def proven_damage(folder: Place) -> str | None:
    """Describe the damage in the log of a table; None if there is none, or the log cannot be read now."""
    try:
        return log_damage(folder)
    except (OSError, MedallionError):
        return None


def log_damage(folder: Place) -> str | None:
    """Describe the damage in the part of a table's log that is needed to open it; None if there is none.

    Raises:
        OSError: A file cannot be read, which proves nothing.
        MedallionError: The same, for a bucket.
    """
    names = {place.name: place for place in (folder / "_delta_log").iterdir()}
    commits, checkpoints = commits_in(names), checkpoints_in(names)
    hinted = hinted_checkpoint(names.get("_last_checkpoint"))
    if hinted is not None and hinted not in checkpoints:
        return f"checkpoint {hinted} is missing"
    if not commits and not checkpoints:
        return None  # the table does not exist
    newest = max(checkpoints, default=-1)
    for place in checkpoints.get(newest, ()):
        if not is_checkpoint(place):
            return f"checkpoint {newest} is damaged"
    for version in range(newest + 1, max(commits, default=newest) + 1):
        if version not in commits:
            return f"commit {version} is missing"
        if not is_commit(commits[version]):
            return f"commit {version} is damaged"
    return None


def commits_in(names: Mapping[str, Place]) -> dict[int, Place]:
    """Return the entries among the files of a log, by version."""
    return {int(match[1]): names[name] for name in names if (match := _COMMIT.fullmatch(name))}


def checkpoints_in(names: Mapping[str, Place]) -> dict[int, list[Place]]:
    """Return the files of each checkpoint among the files of a log, by version."""
    checkpoints: dict[int, list[Place]] = {}
    for name, place in names.items():
        if match := _CHECKPOINT.fullmatch(name):
            checkpoints.setdefault(int(match[1]), []).append(place)
    return checkpoints


def hinted_checkpoint(hint: Place | None) -> int | None:
    """Return the version that ``_last_checkpoint`` names; None if that file is missing or damaged."""
    try:
        return None if hint is None else int(json.loads(hint.read_bytes())["version"])
    except (ValueError, LookupError, TypeError):  # readers ignore a damaged hint
        return None


def is_checkpoint(place: Place) -> bool:
    """Check whether a file of a checkpoint can be parsed."""
    content = place.read_bytes()
    if place.name.endswith(".json"):
        return _are_actions(content)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError):  # the error is in the content, not in reading it
        return False
    return True


def is_commit(place: Place) -> bool:
    """Check whether a file can be parsed as an entry of a log."""
    return _are_actions(place.read_bytes())


def _are_actions(content: bytes) -> bool:
    """Whether every line is a JSON object."""
    try:
        lines: list[Any] = [json.loads(line) for line in content.splitlines() if line.strip()]
    except ValueError:
        return False
    return all(isinstance(line, dict) for line in lines)
