"""How many rows tables have and drop, check by check, and whether the newest count jumps from what was usual."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, pstdev

from medallion.ops import event_log
from medallion.storage.lake import Lake

MIN_HISTORY = 6  # earlier values without which nothing counts as a jump
DEVIATIONS = 3.0
SAME_SHARE = 0.02  # a difference below this share of the usual value is never a jump
QUARANTINE = "quarantine_"  # begins the name of the table of rows that another table drops


@dataclass(frozen=True)
class Volume:
    """The rows of one table, check by check, oldest first, at most one per hour.

    hours, rows: of each check. expected: the rows that its history lets expect; None while it is too short.
    is_jump: whether the newest count lies more than DEVIATIONS from that.
    """

    table: str
    hours: Sequence[str]
    rows: Sequence[int]
    expected: float | None
    is_jump: bool


@dataclass(frozen=True)
class Dropped:
    """The rows that a table leaves out, by its newest check. share: of all its rows, 0 to 1."""

    table: str
    rows: int
    share: float
    is_jump: bool


def read_volumes(lake: Lake) -> tuple[dict[str, Volume], dict[str, Dropped]]:
    """By table: its rows over the 7 days before the newest event, and what it drops, where it drops any."""
    counted: dict[str, dict[str, int]] = {}
    for row in event_log.read(lake, event_log.RECENT, ("table_name", "hour", "rows_in"), event_type="check"):
        if row["table_name"] and row["rows_in"] is not None:
            counted.setdefault(row["table_name"], {})[row["hour"] or "snapshot"] = row["rows_in"]
    volumes = {table: volume_of(table, by_hour) for table, by_hour in counted.items()}
    dropped = {
        name: _dropped(name, by_hour, counted[name])
        for table, by_hour in counted.items()
        if (name := table.removeprefix(QUARANTINE)) != table and name in counted
    }
    return volumes, dropped


def volume_of(table: str, by_hour: Mapping[str, int]) -> Volume:
    """The volume of a table from its rows by hour, oldest first: what it grows by is compared, not what it holds."""
    rows = [*by_hour.values()]
    growth = [later - former for former, later in pairwise(rows)]
    if len(growth) <= MIN_HISTORY:
        return Volume(table, [*by_hour], rows, None, False)
    expected = rows[-2] + fmean(growth[:-1])
    return Volume(table, [*by_hour], rows, expected, _jumps(growth, SAME_SHARE * rows[-2]))


def _dropped(table: str, dropped: Mapping[str, int], row_counts: Mapping[str, int]) -> Dropped:
    shares = [count / max(1, count + row_counts[hour]) for hour, count in dropped.items() if hour in row_counts]
    newest = [*dropped.values()][-1]
    share = shares[-1] if shares else 0.0
    is_jump = len(shares) > MIN_HISTORY and _jumps(shares, SAME_SHARE * fmean(shares[:-1]))
    return Dropped(table, newest, share, is_jump)


def _jumps(values: Sequence[float], floor: float) -> bool:
    """Whether the last of ``values`` lies further from the others than DEVIATIONS, and further than ``floor``."""
    usual, newest = values[:-1], values[-1]
    return abs(newest - fmean(usual)) > max(DEVIATIONS * pstdev(usual), floor)
