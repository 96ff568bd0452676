"""The measures of a benchmark by history, change and strategy, and the words for these."""

import statistics
from collections.abc import Mapping
from typing import Any

Key = tuple[int, float, str]  # days of history, times the usual change, strategy


def totals_by_strategy(result: Mapping[str, Any]) -> dict[Key, list[dict[str, Any]]]:
    """Group the totals of the warm hours by history, change and strategy; ``refresh``: seconds of refreshing alone.

    For an engine that is pushed to, refreshing is all of it.
    """
    totals: dict[Key, list[dict[str, Any]]] = {}
    refresh: dict[tuple[Any, ...], float] = {}
    for m in result["measures"]:
        where = (m["days"], m["change"], m["repeat"], m["strategy"], m["hour"])
        if m["phase"] in {"silver", "gold", "push", "compute"}:
            refresh[where] = refresh.get(where, 0.0) + m["seconds"]
        if m["phase"] == "total" and m["warm"]:
            totals.setdefault((m["days"], m["change"], m["strategy"]), []).append({**m, "refresh": refresh[where]})
    order = result["plan"]["strategies"]
    return {key: totals[key] for key in sorted(totals, key=lambda key: (key[0], key[1], order.index(key[2])))}


def medians_by_phase(result: Mapping[str, Any]) -> dict[tuple[int, float, str], dict[str, float]]:
    """Compute the median seconds of each phase, and of the total, over the warm hours."""
    seconds: dict[tuple[int, float, str], dict[str, list[float]]] = {}
    for m in result["measures"]:
        if m["warm"]:
            phases = seconds.setdefault((m["days"], m["change"], m["strategy"]), {})
            phases.setdefault(m["phase"], []).append(m["seconds"])
    return {key: {phase: statistics.median(s) for phase, s in phases.items()} for key, phases in seconds.items()}


def series_of_first_repeat(result: Mapping[str, Any]) -> dict[Key, list[Mapping[str, Any]]]:
    """Return the totals of every hour of the first repeat, warm or not, in order."""
    series: dict[Key, list[Mapping[str, Any]]] = {}
    for m in result["measures"]:
        if m["phase"] == "total" and m["repeat"] == 1:
            series.setdefault((m["days"], m["change"], m["strategy"]), []).append(m)
    return series


def strategy_label(days: int, change: float, name: str) -> str:
    """Return the words for a strategy at a history and change."""
    return f"{name}, {size_label(days, change)}"


def size_label(days: int, change: float) -> str:
    """Return the words for a history and a change, such as ``30 d, x10``."""
    return f"{days} d" + (f", x{change:g}" if change != 1 else "")
