"""Where the lake stands beside its source: what is pending, and what holds up the next hour."""

from collections.abc import Sequence
from dataclasses import dataclass

from medallion.errors import MedallionError
from medallion.hours import ONE_HOUR, parse_hour
from medallion.inspect.hour_history import HourMark, hour_history
from medallion.inspect.status import LakeStatus, lake_status
from medallion.pipeline.turns import UnpublishedHour, read_line
from medallion.settings import Settings
from medallion.storage.lake import Lake


@dataclass(frozen=True)
class Standing:
    """The lake beside its source.

    status: of the lake; tables are stale by the clock only where it goes with the clock. pending: hours that the
    source has and the lake has not. blocked: the hour that later ones wait for. source_error: why the source was not
    listed. hours: what became of each.
    """

    status: LakeStatus
    applied: str | None = None
    pending: Sequence[str] = ()
    blocked: UnpublishedHour | None = None
    source_error: str | None = None
    hours: Sequence[HourMark] = ()

    @property
    def newest(self) -> str | None:
        """The newest hour that the source or the lake has."""
        return self.pending[-1] if self.pending else self.applied

    @property
    def is_up_to_date(self) -> bool:
        """Whether the source was listed and has nothing that the lake has not."""
        return self.source_error is None and not self.pending

    def lag_hours(self, hour: str | None) -> float | None:
        """How many hours ``hour`` lies behind the newest one."""
        if hour is None or self.newest is None:
            return None
        return max(0.0, (parse_hour(self.newest) - parse_hour(hour)) / ONE_HOUR)


def read_standing(settings: Settings) -> Standing:
    """Read where the lake stands: logs and one listing of the source; a source that cannot be listed is no error."""
    lake = Lake.of(settings)
    status = lake_status(settings)
    release = status.release
    if release is None:
        return Standing(status)
    try:
        line = read_line(settings)
    except MedallionError as error:
        return Standing(status, release.hour, source_error=str(error), hours=hour_history(lake))
    return Standing(status, line.applied, line.pending, line.unpublished, None, hour_history(lake, line.pending))
