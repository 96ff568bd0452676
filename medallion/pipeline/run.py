"""One refresh of one hour as asked for, and how a step of it ended."""

from collections.abc import Callable
from dataclasses import dataclass

from medallion.errors import UsageError
from medallion.hours import parse_hour
from medallion.ops.event_schema import Status
from medallion.settings import Settings

Report = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One refresh of one hour. hour: None for the next pending one. attempt counts from 1.

    lineage_parent: the scheduler's task that it works for, as OpenLineage names it. select: the tables to refresh, as
    ``select_tables`` reads them; empty for all of them.
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
        """The hour, for steps that cannot choose one. Raises UsageError when there is none."""
        if self.hour is None:
            raise UsageError("this step needs --hour, as YYYY-MM-DDTHH")
        return self.hour


@dataclass(frozen=True)
class Outcome:
    """How a step ended: ``succeeded``, ``skipped`` (nothing left to do) or ``warned``, for which hour, and a note."""

    status: Status
    message: str
    hour: str | None
