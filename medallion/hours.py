"""Hours: the unit of change data and of a refresh, always UTC, written YYYY-MM-DDTHH."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from medallion.errors import UsageError

PATTERN = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3])"
ONE_HOUR = timedelta(hours=1)
MONTH_HOURS = 365 * 24 // 12
_FORMAT = "%Y-%m-%dT%H"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_hour(text: str) -> datetime:
    """Return the start of the hour that ``text`` names, in UTC.

    Raises UsageError unless ``text`` is exactly YYYY-MM-DDTHH and a valid date.
    """
    if re.fullmatch(PATTERN, text):
        try:
            return datetime.strptime(text, _FORMAT).replace(tzinfo=UTC)
        except ValueError:
            pass
    raise UsageError(f"hour {text[:40]!r} is not an hour: write YYYY-MM-DDTHH in UTC, such as 2025-11-30T00")


def is_hour(text: str) -> bool:
    """Return whether ``text`` is exactly YYYY-MM-DDTHH and a valid date."""
    try:
        parse_hour(text)
    except UsageError:
        return False
    return True


def has_ended(hour: str, now: datetime | None = None) -> bool:
    """Return whether ``hour`` lies entirely in the past. now: the current time, by default the system clock's."""
    return parse_hour(hour) + ONE_HOUR <= (now or datetime.now(UTC))


def format_hour(moment: datetime) -> str:
    """Return the hour that contains ``moment``, as YYYY-MM-DDTHH in UTC."""
    return moment.astimezone(UTC).strftime(_FORMAT)


def hour_or_snapshot(hour: str | None) -> str:
    """Return ``hour`` as messages name it; None stands for the snapshot, which precedes the first hour."""
    return f"hour {hour}" if hour else "the snapshot"


def hour_number(hour: str) -> int:
    """Return the hours since 1970-01-01T00 UTC, which Bronze records as the transaction version of an hour."""
    return int((parse_hour(hour) - _EPOCH) / ONE_HOUR)


def hour_from_number(number: int) -> str:
    """Return the hour for a number that ``hour_number`` returned."""
    return format_hour(_EPOCH + number * ONE_HOUR)


def next_hour(hour: str) -> str:
    """Return the hour after ``hour``."""
    return format_hour(parse_hour(hour) + ONE_HOUR)


def hour_range(first: str, last: str) -> Iterator[str]:
    """Return every hour from ``first`` to ``last``, both included.

    Raises UsageError when ``last`` precedes ``first``.
    """
    start, end = hour_number(first), hour_number(last)
    if end < start:
        raise UsageError(f"hour range {first} to {last} ends before it starts")
    return (hour_from_number(n) for n in range(start, end + 1))
