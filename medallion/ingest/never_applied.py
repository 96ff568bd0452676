"""Hours of the source that the schedule does not apply: one warning, and a note until somebody applies them."""

from collections.abc import Collection, Sequence

from medallion.errors import advice
from medallion.ops import event_log
from medallion.ops.event_log import EventLog
from medallion.storage.lake import Lake

KEY = "never_applied"  # in the details of the warning's event


def warn_of_never_applied(lake: Lake, run_id: str, hours: Sequence[str]) -> bool:
    """Record a warning that the schedule does not apply ``hours``, unless there is one; return whether it is new.

    hours: oldest first. A warning about the first of them counts for all, because hours are applied in order.
    """
    if hours[0] in _last_warned_of(lake):
        return False
    log = EventLog(lake, run_id=run_id, hour=hours[0], strategy="", attempt=1)
    log.add("land", None, None, status="warned", details={"note": describe(hours), KEY: [*hours]})
    log.write_waiting()
    return True


def forget_withdrawn(lake: Lake, run_id: str, applied: str | None, pending: Collection[str], until: str) -> None:
    """Record that hours of the last warning are no longer pending because the source does not list them any more.

    applied: the last hour that Bronze has. pending: the hours that the source lists after it, up to ``until``.
    """
    known = read_never_applied(lake, applied)
    left = [hour for hour in known if hour in pending or hour > until]
    if left != known:
        log = EventLog(lake, run_id=run_id, hour=known[0], strategy="", attempt=1)
        note = f"{len(known) - len(left)} pending hours are not listed by the source any more"
        log.add("land", None, None, status="skipped", details={"note": note, KEY: left})
        log.write_waiting()


def read_never_applied(lake: Lake, applied: str | None) -> list[str]:
    """Return the hours of the last warning that are still not applied. applied: the last hour that Bronze has."""
    return [hour for hour in _last_warned_of(lake) if hour > (applied or "")]


def describe(hours: Sequence[str]) -> str:
    """Say that the schedule does not apply ``hours``, and how to apply them."""
    span = f"hour {hours[0]} is" if len(hours) == 1 else f"{len(hours)} hours ({hours[0]} to {hours[-1]}) are"
    return f"{span} pending, and too old for the schedule to catch up on: {advice.apply_pending(hours[0], hours[-1])}"


def _last_warned_of(lake: Lake) -> list[str]:
    """Return the hours of the last warning, without those that the source has withdrawn since."""
    rows = event_log.read_if_whole(lake, event_log.RECENT, ("details",), event_type="land")
    return next((list(row.details[KEY]) for row in reversed(rows or []) if KEY in row.details), [])
