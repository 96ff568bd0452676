"""Red hours: those at which the newest check of a layer, or of what readers have, failed.

This is the one definition of red. It goes by the records of checks, which are written with the verdict under the
writer lock, and not by the event log, which may be unwritable: every door finds the same hour red.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from medallion.errors import advice
from medallion.ops.check_records import CheckRecord, Failure, read_check_records
from medallion.storage.lake import Lake

VALIDATION = "validation"  # stands for a layer in the record of the check of what readers have


@dataclass(frozen=True)
class RedHour:
    """An hour whose check failed.

    hour: the earliest that may be at fault; restating from it always heals. until: the hour that Bronze was at. layer:
    of the check, or VALIDATION. run_id, report: of that check. failures: what failed.
    """

    hour: str
    until: str
    layer: str
    run_id: str
    report: str = ""
    failures: tuple[Failure, ...] = ()

    @classmethod
    def of(cls, record: CheckRecord) -> Self:
        """Return the red hour that the record of a failed check tells of."""
        until = record.hour or "snapshot"
        return cls(
            min(record.suspect or until, until), until, record.layer, record.run_id, record.report, record.failures
        )

    @property
    def headline(self) -> str:
        """That it is red; where any of several hours may be at fault, that they are."""
        if self.hour == self.until:
            return f"hour {self.hour} is red"
        return f"hours {self.hour} to {self.until} are red"

    @property
    def sentence(self) -> str:
        """The headline as a sentence begins."""
        return self.headline[0].upper() + self.headline[1:]

    @property
    def cause(self) -> str:
        """What failed, in one line: the table, what it promises, what was observed, and where its rows came from."""
        origin = self.failures[0].origin if self.failures else ""
        return self.verdict + (f"; {origin}" if origin else "")

    @property
    def verdict(self) -> str:
        """The cause without change files and their lines, as it may be told outside."""
        check = f"{self.layer} failed" if self.layer == VALIDATION else f"{self.layer} check failed"
        if not self.failures:
            return check
        first, more = self.failures[0], len(self.failures) - 1
        parts = (check, first.table, first.expectation, first.observed)
        return ": ".join(filter(None, parts)) + (f", and {more} more" if more else "")

    @property
    def recovery(self) -> str:
        """What heals it, by what was at fault."""
        return advice.recover_red_hour(self.hour, self.until)

    def describe(self) -> str:
        """Say which hour is red, why, and where its report is."""
        return self._describe(self.cause)

    def refuse(self, what: str) -> str:
        """Say that ``what`` cannot be done, which hour is red and why, and how it is healed."""
        return f"{what}: {self.describe()}. {self.recovery}"

    def refuse_outside(self, what: str) -> str:
        """Say the same without change files and their lines."""
        return f"{what}: {self._describe(self.verdict)}. {self.recovery}"

    def _describe(self, why: str) -> str:
        return f"{self.headline}: {why}" + (f"; see {self.report}" if self.report else "")


@dataclass(frozen=True)
class UnpublishedHour:
    """The last hour of Bronze, which readers do not have, or whose check failed.

    run_id: the run that worked on it last; empty where that is not known. red: why it is red, None where no check
    failed.
    """

    hour: str
    run_id: str
    red: RedHour | None = None


def read_red_hour(lake: Lake, layers: Iterable[str]) -> RedHour | None:
    """Return the first red hour of a lake with these layers; None where the newest check of each has passed.

    Not that of the snapshot: its load is repeated as a whole.
    """
    records = read_check_records(lake, (*layers, VALIDATION)).values()
    red = [RedHour.of(record) for record in records if record and record.hour and record.status == "failed"]
    return min(red, key=lambda one: one.hour, default=None)  # of several the first layer, which the others follow from
