"""How a table was brought up to date with its inputs, in the words of the event log and the pages."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

# Column of changed rows: the position of their commit among those read, from 1; negative for deleted rows.
SIDE = "_medallion_side"

NO_INPUT_CHANGED = "no input has changed"  # the note of a refresh that had nothing to do


class RefreshMethod(StrEnum):
    """What one refresh of one table did; the event log stores the value as ``method`` in ``details``."""

    UPSERT = "upsert"
    INCREMENTAL_AGGREGATE = "incremental aggregate"
    LATEST_ROWS = "latest rows"
    FULL_RECOMPUTE = "full recompute"
    UNCHANGED = "unchanged"


class StateWork(StrEnum):
    """The work on incremental state that a refresh did before it could use the state; events store it as ``state``.

    SET_UP: there was no state yet; this happens once. REBUILT: the state was outdated by a full refresh, a restatement
    or a changed definition; this happens after each of them.
    """

    SET_UP = "set-up"
    REBUILT = "state rebuilt"


def read_state_work(details: Mapping[str, Any]) -> StateWork | None:
    """Return the work on incremental state in the details of a refresh event; None if the state was usable."""
    if stored := details.get("state"):
        return StateWork(stored)
    note = str(details.get("note"))  # older events have it only in their note
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
    """Return the words for the method that an event stores; unknown words are returned unchanged."""
    return _WORDS_IN_OLDER_EVENTS.get(stored, stored)
