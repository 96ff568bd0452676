"""Find landed files of earlier hours whose records the parts of an hour may repeat."""

from collections.abc import Sequence
from itertools import islice

from medallion.ingest.hour_files import landed_file
from medallion.ingest.ledger import manifests_before
from medallion.ingest.parts import LandedParts, Part, Parts
from medallion.model.table import Feed
from medallion.storage.lake import Lake

_HOURS = 2  # of the feed: what a sink delivers again after a restart, it delivered shortly before


def landed_before(lake: Lake, feed: Feed, hour: str, parts: Sequence[Part]) -> list[LandedParts]:
    """Return the files that landed for the last hours of ``feed`` before ``hour`` and may contain records of ``parts``.

    A restarted sink that assigns hours by its clock delivers records again in the folder of another hour. A file
    is compared if a part begins before its end, and only while it is in the landing folder.
    """
    begins: dict[tuple[str, int], int] = {}
    for part in parts:
        if part.stream is not None and part.first_offset is not None:
            begins[part.stream] = min(part.first_offset, begins.get(part.stream, part.first_offset))
    earlier_files: list[LandedParts] = []
    for manifest in islice(manifests_before(lake, hour, feed.topic), _HOURS) if begins else ():
        former, place = Parts(manifest.files[feed.topic].parts), landed_file(lake, feed.topic, manifest.hour)
        if any(_goes_on_past(part, begins) for part in former) and place.is_file():
            earlier_files.append((place, former))
    return earlier_files[::-1]


def _goes_on_past(part: Part, begins: dict[tuple[str, int], int]) -> bool:
    """Whether a part has an offset at which a later one begins, or a higher one."""
    return part.stream in begins and (part.first_offset or 0) + part.lines > begins[part.stream]
