"""How a table was brought to its inputs' current versions, in the words that the event log and the pages use."""

from collections.abc import Mapping
from enum import StrEnum


class RefreshMethod(StrEnum):
    """What one refresh of one table did; the event log stores the value as ``how`` in ``details``."""

    UPSERT = "upsert"
    INCREMENTAL_AGGREGATE = "incremental aggregate"
    LATEST_ROWS = "latest rows"
    FULL_RECOMPUTE = "full recompute"
    UNCHANGED = "unchanged"


_WORDS_IN_OLDER_EVENTS: Mapping[str, RefreshMethod] = {
    "by key": RefreshMethod.UPSERT,
    "additive": RefreshMethod.INCREMENTAL_AGGREGATE,
    "recent rows": RefreshMethod.LATEST_ROWS,
    "recomputed": RefreshMethod.FULL_RECOMPUTE,
}


def read_method(stored: str) -> str:
    """Return the words for the method that an event stores; those of another version's method as they are."""
    return _WORDS_IN_OLDER_EVENTS.get(stored, stored)
