"""One requested refresh of one hour, and how a step of it ended."""

from collections.abc import Callable
from dataclasses import dataclass

from medallion.errors import UsageError
from medallion.hours import parse_hour
from medallion.ops.event_schema import Status
from medallion.settings import Settings

Report = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One requested refresh of one hour. hour: None for the next pending one. attempt: counts from 1.

    lineage_parent: the scheduler's task that the run belongs to, as OpenLineage names it. select: the tables to
    refresh, in the syntax of ``select_tables``; empty for all of them.
    """

    settings: Settings
    hour: str | None
    run_id: str
    attempt: int = 1
    strategy: str = "full"
    lineage_parent: str | None = None
    select: str = ""

    def __post_init__(self) -> None:
        if self.hour is not None:
            parse_hour(self.hour)

    @property
    def required_hour(self) -> str:
        """The hour, for steps that cannot choose one. Raises UsageError if the run has none."""
        if self.hour is None:
            raise UsageError("this step needs --hour, as YYYY-MM-DDTHH")
        return self.hour


@dataclass(frozen=True)
class Outcome:
    """How a step ended. status: ``succeeded``, ``skipped`` (nothing to do) or ``warned``. message: a note."""

    status: Status
    message: str
    hour: str | None
