"""The files of the source that one landed file was put together from, in order: which line came from where.

If a layout has one file per hour and that file is plain, it is landed as it is and has no parts.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from medallion.storage.files import Place

_KAFKA = re.compile(
    r"(?:.*/)?([^/]*)\+(\d{1,9})\+(\d{1,19})\.[^/+]*", re.DOTALL
)  # <topic>+<partition>+<first offset>.<extension>


@dataclass(frozen=True)
class Part:
    """One file of the source: its name there, size in bytes and SHA-256 as it came, and its lines as landed."""

    name: str
    bytes: int
    sha256: str
    lines: int

    @property
    def topic(self) -> str | None:
        """The Kafka topic of the file, if its name has one."""
        return None if (place := _kafka_place(self.name)) is None else place[0]

    @property
    def partition(self) -> int | None:
        """The partition of the topic, if the name of the file has one."""
        return None if (place := _kafka_place(self.name)) is None else place[1]

    @property
    def first_offset(self) -> int | None:
        """The offset of the first record, if the name of the file has one."""
        return None if (place := _kafka_place(self.name)) is None else place[2]

    @property
    def stream(self) -> tuple[str, int] | None:
        """The topic and partition of the file, if its name has them."""
        return None if (place := _kafka_place(self.name)) is None else place[:2]


class Parts:
    """The parts of a landed file, in order.

    of_hours_before: what landed for hours before and may have some of its records, in the order of hours.
    """

    def __init__(self, parts: Sequence[Part] = (), of_hours_before: "Sequence[LandedParts]" = ()) -> None:
        self._parts, self.of_hours_before = tuple(parts), tuple(of_hours_before)
        self._ends = [*accumulate(part.lines for part in parts)]

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Part]:
        return iter(self._parts)

    def index(self, line: int) -> int:
        """Return the index of the part that a line of the landed file is from, from 0."""
        return min(bisect_right(self._ends, line - 1), len(self._parts) - 1)

    def place(self, line: int) -> str:
        """Return file and line at the source of a line of the landed file, as ``name:line``."""
        part, number = self.locate(line)
        return f"{part.name}:{number}"

    def locate(self, line: int) -> tuple[Part, int]:
        """Return the part that a line of the landed file is from, and its line number in that part."""
        index = self.index(line)
        return self._parts[index], line - self._lines_before(index)

    def lines_before(self) -> dict[Part, int]:
        """Return for each part how many lines of the landed file come before it."""
        return {part: self._lines_before(index) for index, part in enumerate(self._parts)}

    def _lines_before(self, index: int) -> int:
        return self._ends[index - 1] if index else 0

    @property
    def streams(self) -> list[int]:
        """The number of each part's stream: a partition of a topic or, if the name has none, the file itself.

        Records of one stream are in order.
        """
        known: dict[object, int] = {}
        keys = [part.stream or part.name for part in self._parts]
        return [known.setdefault(key, len(known)) for key in keys]


LandedParts = tuple[Place, Parts]  # a landed file, and the files that it was put together from


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Sort files of a feed and an hour in the order in which they are read: by topic, partition and offset, or name."""
    return tuple(sorted(names, key=lambda name: (*(_kafka_place(name) or ("", -1, -1)), name)))


def _kafka_place(name: str) -> tuple[str, int, int] | None:
    match = _KAFKA.fullmatch(name)
    return (match[1], int(match[2]), int(match[3])) if match else None
