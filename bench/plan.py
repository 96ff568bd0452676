"""What a comparison of strategies is asked for, and what it measures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.choices import ALWAYS
from medallion.errors import UsageError
from medallion.hours import hour_from_number, hour_number
from medallion.model.table import STRATEGIES as RUN_STRATEGIES
from medallion.ops.event_schema import phases_of
from medallion.project import find_project

FIRST_HOUR = "2025-11-30T00"  # of the changes of a generated source


STRATEGIES = ("naive", *RUN_STRATEGIES, ALWAYS, "duckdb", "declarative", "feldera")


CATALOGUE = ("customers", "products", "suppliers")


# Those of an hour but its session, which is measured apart, and the extra tables, which take no part.
_EVERY_PHASE = phases_of(find_project().layers, external=True)
PHASES = (*(phase for phase in _EVERY_PHASE if phase not in {"session", "platinum"}), "other")


VIEWS = "views"  # the phase in which all views of another engine are read, apart from the total


@dataclass(frozen=True)
class Plan:
    """What is compared. days: sizes of history, each with the usual change of an hour, ``repeats`` times; changes:
    multiples of that change, each once with the history ``changes_at``, by default the first; hours: that count, after
    those that warm a driver up; feldera: where a Feldera runs, for the strategy of that name. catalogue:
    whether customers, products and suppliers change too, whose changes fan out to many orders. source_format: in which
    the changes are delivered."""

    strategies: Sequence[str]
    days: Sequence[int]
    changes: Sequence[float] = ()
    changes_at: int | None = None
    hours: int = 10
    warm_up: int = 3
    repeats: int = 1
    scale: float = 1.0
    seed: int = 0
    feldera: str | None = None
    catalogue: bool = True
    source_format: str = "insert_delete"

    def __post_init__(self) -> None:
        if unknown := [name for name in self.strategies if name not in STRATEGIES]:
            raise UsageError(f"strategy {unknown[0][:40]!r} is unknown: choose {', '.join(STRATEGIES)}")
        if len(self.strategies) < 2 or min(*self.days, *self.changes, self.hours, self.repeats, self.at) <= 0:
            raise UsageError("a comparison takes two strategies or more, and at least one hour, day and repeat")
        if ("feldera" in self.strategies) != (self.feldera is not None):
            raise UsageError("the strategy feldera needs --feldera-url, and that address the strategy")

    @property
    def all_hours(self) -> int:
        """Hours that a driver refreshes."""
        return self.warm_up + self.hours

    @property
    def at(self) -> int:
        """The history with which changes of other sizes are measured."""
        return self.changes_at or self.days[0]

    @property
    def rounds(self) -> "list[Round]":
        """All sizes of history once, then the other sizes of change, then the repeats."""
        first, *again = ([Round(days, 1.0, repeat) for days in self.days] for repeat in range(1, self.repeats + 1))
        others = [Round(self.at, change, 1) for change in self.changes if change != 1]
        return list(dict.fromkeys([*first, *others, *(planned for repeat in again for planned in repeat)]))


class Round(NamedTuple):
    """Fresh drivers that refresh the same hours in turns. change: a multiple of an hour's usual one."""

    days: int
    change: float
    repeat: int


def hours_of(change: float, count: int) -> list[str]:
    """The first ``count`` hours of changes; where each stands for several, the last of these: delivered earlier, their
    timestamps would lie in the future."""
    step, first = max(1, int(change)), hour_number(FIRST_HOUR)
    return [hour_from_number(first + step * number - 1) for number in range(1, count + 1)]


@dataclass(frozen=True)
class Measure:
    """One phase of one hour of one strategy. number counts the hours of a driver from 1; the first ones warm it up.

    seconds are wall seconds, cpu_seconds those of the driver and its JVM, jobs those of its Spark: None where that is
    not known apart. files, commits and bytes_out are of the tables of that phase; what is kept beside the tables (event
    log, sums, reports) counts as other. bytes_read: what the driver and its JVM read by system calls, from disk or from
    the page cache; None for a single phase, and where the system does not tell.
    """

    days: int
    change: float
    repeat: int
    strategy: str
    hour: str
    number: int
    warm: bool
    phase: str
    seconds: float
    cpu_seconds: float | None = None
    rows_out: int | None = None
    files: int = 0
    commits: int = 0
    bytes_out: int = 0
    jobs: int | None = None
    bytes_read: int | None = None
