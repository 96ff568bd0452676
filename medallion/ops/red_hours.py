"""Red hours: hours whose newest check of a layer, or newest validation, failed.

This is the only definition of red. It uses the records of checks, which are written with the verdict under the writer
lock, rather than the event log, which may be unwritable. So commands, DAGs and pages find the same hour red.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

from medallion.errors import advice
from medallion.ops.check_records import CheckedTable, CheckRecord, Failure, read_check_records
from medallion.storage.lake import Lake

VALIDATION = "validation"  # in place of a layer, in the record of the validation of what readers have


@dataclass(frozen=True)
class RedHour:
    """An hour whose check failed.

    hour: the earliest hour that may be at fault; once its cause is corrected, restating from it always heals. until:
    the hour that Bronze was at. layer: of the check, or VALIDATION. run_id, report: of that check. failures: what
    failed.
    """

    hour: str
    until: str
    layer: str
    run_id: str
    report: str = ""
    failures: tuple[Failure, ...] = ()

    @classmethod
    def of(cls, record: CheckRecord) -> Self:
        """Return the red hour for the record of a failed check."""
        until = record.hour or "snapshot"
        return cls(
            min(record.suspect or until, until), until, record.layer, record.run_id, record.report, record.failures
        )

    @property
    def headline(self) -> str:
        """Which hour is red, or which hours, if several may be at fault."""
        if self.hour == self.until:
            return f"hour {self.hour} is red"
        return f"hours {self.hour} to {self.until} are red"

    @property
    def sentence(self) -> str:
        """The headline with a capital letter, to begin a sentence."""
        return self.headline[0].upper() + self.headline[1:]

    @property
    def cause(self) -> str:
        """What failed, in one line: the table, the expectation, what was observed, and the origin of the rows."""
        origin = self.failures[0].origin if self.failures else ""
        return self.verdict + (f"; {origin}" if origin else "")

    @property
    def verdict(self) -> str:
        """The cause without change files and their lines, so that it may leave the lake."""
        check = f"{self.layer} failed" if self.layer == VALIDATION else f"{self.layer} check failed"
        if not self.failures:
            return check
        first, more = self.failures[0], len(self.failures) - 1
        parts = (check, first.table, first.expectation, first.observed)
        return ": ".join(filter(None, parts)) + (f", and {more} more" if more else "")

    @property
    def recovery(self) -> str:
        """What to do to heal the hour, depending on what was at fault."""
        return advice.recover_red_hour(self.hour, self.until)

    def describe(self) -> str:
        """Say which hour is red, why, and where its report is."""
        return self._describe(self.cause)

    def refuse(self, what: str) -> str:
        """Say that ``what`` is refused, which hour is red and why, and how to heal it."""
        return f"{what}: {self.describe()}. {self.recovery}"

    def refuse_outside(self, what: str) -> str:
        """Say the same without change files and their lines."""
        return f"{what}: {self._describe(self.verdict)}. {self.recovery}"

    def _describe(self, why: str) -> str:
        return f"{self.headline}: {why}" + (f"; see {self.report}" if self.report else "")


@dataclass(frozen=True)
class UnpublishedHour:
    """The last hour of Bronze, if it is not published or its check failed.

    run_id: the run that last worked on it; empty if unknown. red: why it is red; None if no check failed.
    """

    hour: str
    run_id: str
    red: RedHour | None = None


def read_red_hour(
    lake: Lake, layers: Iterable[str], *, of_current_rows: bool = False, without: Collection[str] = ()
) -> RedHour | None:
    """Return the first red hour of a lake with these layers; None if the newest check of each has passed.

    A failed check of the snapshot does not count, because its load is repeated as a whole. of_current_rows: count only
    checks that read the rows which the tables have now. without: the identities of checks that do not count.
    """
    failed = [record for record in failed_checks(lake, layers) if record.identity not in without]
    red = [RedHour.of(record) for record in failed if not of_current_rows or _has_read_current_rows(lake, record)]
    # On a tie the first layer counts: failures of the others follow from it.
    return min(red, key=lambda candidate: candidate.hour, default=None)


def failed_checks(lake: Lake, layers: Iterable[str]) -> list[CheckRecord]:
    """Return the newest check of each layer, and the newest validation, that failed for an hour."""
    records = read_check_records(lake, (*layers, VALIDATION)).values()
    return [record for record in records if record and record.hour and record.status == "failed"]


def _has_read_current_rows(lake: Lake, record: CheckRecord) -> bool:
    def is_current(name: str, checked: CheckedTable) -> bool:
        newest = lake.version(name)
        return newest is not None and lake.same_rows(name, checked.version, newest, checked.commit)

    return bool(record.tables) and all(is_current(name, checked) for name, checked in record.tables.items())
