"""An erasure that was cut short: until it is finished, Bronze may have rows that are to go, so nothing else begins."""

from medallion.errors import HourOutOfOrder, advice
from medallion.ingest.erased_subjects import Registered
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.lake import Lake

REMEDY = "remove it, and erase the same persons again"


def plan_place(lake: Lake) -> Place:
    """Return the file with the plan of an erasure, which exists until the erasure is finished."""
    return Registered(lake).folder / "plan.json"


def describe_unfinished_erasure(lake: Lake) -> str | None:
    """Say which erasure is unfinished and how to finish it; None if none is. Raises DamagedFile for a broken plan."""
    erasure_id = files.read_record(plan_place(lake), lambda content: str(content["erasure_id"]), REMEDY)
    return None if erasure_id is None else f"erasure {erasure_id} was cut short: {advice.end_erasure()}"


def require_no_erasure(lake: Lake, so: str = "hours must wait") -> None:
    """Raise HourOutOfOrder, which begins with ``so``, while an erasure that was cut short is not finished."""
    if (unfinished := describe_unfinished_erasure(lake)) is not None:
        raise HourOutOfOrder(f"{so}: {unfinished}")
