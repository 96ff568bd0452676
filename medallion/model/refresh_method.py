"""How a table was brought to its inputs' current versions, in the words that the event log and the pages use."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

SIDE = "_side"  # of a changed row: the place of its commit among those read, from 1; negative where it was deleted


class RefreshMethod(StrEnum):
    """What one refresh of one table did; the event log stores the value as ``how`` in ``details``."""

    UPSERT = "upsert"
    INCREMENTAL_AGGREGATE = "incremental aggregate"
    LATEST_ROWS = "latest rows"
    FULL_RECOMPUTE = "full recompute"
    UNCHANGED = "unchanged"


class StateWork(StrEnum):
    """What a refresh did about incremental state before it could use it; events store it as ``state``.

    SET_UP: there was none, which happens once. REBUILT: a full refresh, a restatement or another definition came
    between, which happens each time.
    """

    SET_UP = "set-up"
    REBUILT = "state rebuilt"


def read_state_work(details: Mapping[str, Any]) -> StateWork | None:
    """Return what the refresh that an event is of did about incremental state; None for one that found it."""
    if stored := details.get("state"):
        return StateWork(stored)
    note = str(details.get("note"))  # of events from before they stored it
    if not details.get("built_state") and "rebuilt aggregate state" not in note:
        return None
    return StateWork.REBUILT if "was rewritten" in note or "is not known" in note else StateWork.SET_UP


_WORDS_IN_OLDER_EVENTS: Mapping[str, RefreshMethod] = {
    "by key": RefreshMethod.UPSERT,
    "additive": RefreshMethod.INCREMENTAL_AGGREGATE,
    "recent rows": RefreshMethod.LATEST_ROWS,
    "recomputed": RefreshMethod.FULL_RECOMPUTE,
}


def read_method(stored: str) -> str:
    """Return the words for the method that an event stores; those of another version's method as they are."""
    return _WORDS_IN_OLDER_EVENTS.get(stored, stored)
