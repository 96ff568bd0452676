"""Files of an hour that landed and that the source no longer lists: they stay part of the hour.

A source deletes files after some time, so a missing file does not mean that its rows are withdrawn. What landed is kept
beside the files that the source has now, unless it is unclear whether new files replace the old ones.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from medallion.errors import MedallionError
from medallion.ingest.delta_source import version_of
from medallion.ingest.hour_files import landed_file
from medallion.ingest.parts import Part
from medallion.ingest.source import Landed, digest
from medallion.storage.files import Place
from medallion.storage.lake import Lake

_SHOWN = 3  # most files that a message names


def is_as_landed(lake: Lake, topic: str, hour: str, file: Landed) -> bool:
    """Check whether the landed file has the size and checksum in its manifest, by reading all of it."""
    try:
        with landed_file(lake, topic, hour).open("rb") as stream:
            return digest(stream) == file
    except (FileNotFoundError, IsADirectoryError):
        return False


def withdrawn(landed: Landed | None, names: Collection[str]) -> list[Part]:
    """Return the parts of a landed file that are not among ``names``, the files that the source lists."""
    return [part for part in (landed.parts if landed else ()) if part.name not in names]


def why_lost(lake: Lake, topic: str, hour: str, landed: Landed, names: Sequence[str]) -> str | None:
    """Say why a feed's hour cannot be landed again from ``names``, the files that the source lists; None if it can.

    The landed copy of what the source has withdrawn must be as it landed. If it has withdrawn all files, and their
    names have no offsets, the new files may be the same changes delivered again or further ones.
    """
    gone = withdrawn(landed, names)
    if not gone or not names:
        return None
    place, shown = landed_file(lake, topic, hour), ", ".join(part.name for part in gone[:_SHOWN])
    shown += f" and {len(gone) - _SHOWN} more" * (len(gone) > _SHOWN)
    is_other = len(gone) == len(landed.parts) and not all(_has_place(part) for part in gone)
    if is_other and not place.exists():
        return None  # somebody deleted the landed file: the new files replace the old ones
    if is_other:
        return (
            f"{topic} of {hour} has other files at the source than those that landed, {shown}: delete {place} if they"
            " are in place of these, or have these delivered again if they are further ones"
        )
    if not is_as_landed(lake, topic, hour, landed):
        return (
            f"{topic} of {hour} would lose {shown}: the source no longer lists what landed, and {place} is not as it"
            " landed; have the source deliver it again"
        )
    return None


def parts_to_keep(lake: Lake, topic: str, hour: str, landed: Landed | None, names: Sequence[str]) -> dict[str, Part]:
    """Return by name the parts that are taken from the landed file: withdrawn ones, and commits of a Delta table.

    A commit never changes, and the files that it needs may be gone by now.

    Raises MedallionError if a part would be lost.
    """
    if landed is None:
        return {}
    if reason := why_lost(lake, topic, hour, landed, names):
        raise MedallionError(f"{reason}; nothing of hour {hour} was landed now")
    old_parts = {
        part.name: part for part in landed.parts if part.name not in names or version_of(part.name) is not None
    }
    return old_parts if old_parts and is_as_landed(lake, topic, hour, landed) else {}


def copy_parts(landed: Place, parts: Sequence[Part], wanted: Collection[str], folder: Path) -> dict[str, Path]:
    """Copy the lines of some parts of a landed file, each to its own file; return the files by name of the part."""
    copies: dict[str, Path] = {}
    with landed.open("rb") as stream:
        for part in parts:
            lines = (stream.readline() for _ in range(part.lines))
            if part.name in wanted:
                copies[part.name] = folder / f"kept-{len(copies)}"
                with copies[part.name].open("wb") as out:
                    out.writelines(lines)
            else:
                for _ in lines:
                    pass
    return copies


def _has_place(part: Part) -> bool:
    return part.first_offset is not None or version_of(part.name) is not None
