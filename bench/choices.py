"""How often the policy ``auto`` chooses well: beside it runs a lake that is always recomputed, and one that never is.

Of every table, the medians of its warm hours are compared, because single refreshes on shared cores vary too much.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from medallion.model.refresh_method import RefreshMethod

CHOSEN, RECOMPUTED, ALWAYS = "incremental", "full", "always"  # the strategies that are compared
TOLERANCE = 1.1  # a refresh up to so many times as long as the other way is no wrong choice


class Refresh(NamedTuple):
    """One refresh of one table in a warm hour."""

    strategy: str
    table: str
    method: str
    seconds: float


class Choices(NamedTuple):
    """How many refreshes had a choice, and how many took the better way; by table and method, the seconds of the wrong
    ones, chosen and other."""

    right: int
    made: int
    wrong: Mapping[str, tuple[float, float]]

    def as_values(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return self._asdict() | {"wrong": dict(self.wrong)}


def judge(refreshes: Iterable[Refresh]) -> Choices:
    """Judge the refreshes of ``incremental`` by those of the same table in the two other lakes.

    A refresh without changed inputs is no choice, nor is that of a table which the third lake recomputes too.
    """
    chosen: dict[str, Counter[str]] = {}
    seconds: dict[tuple[str, str, bool], list[float]] = {}
    for refresh in refreshes:
        if refresh.method == RefreshMethod.UNCHANGED:
            continue
        is_full = refresh.method == RefreshMethod.FULL_RECOMPUTE
        seconds.setdefault((refresh.strategy, refresh.table, is_full), []).append(refresh.seconds)
        if refresh.strategy == CHOSEN:
            chosen.setdefault(refresh.table, Counter())[refresh.method] += 1
    right, made, wrong = 0, 0, dict[str, tuple[float, float]]()
    for table, methods in chosen.items():
        for method, times in methods.items():
            is_full = method == RefreshMethod.FULL_RECOMPUTE
            other = seconds.get((ALWAYS if is_full else RECOMPUTED, table, not is_full))
            if other is None:
                continue
            took, instead = statistics.median(seconds[CHOSEN, table, is_full]), statistics.median(other)
            made += times
            if took <= TOLERANCE * instead:
                right += times
            else:
                wrong[f"{table}, {method}"] = (took, instead)
    return Choices(right, made, wrong)
