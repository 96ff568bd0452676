"""Incremental aggregate: what a change adds to each part is added to its state, the rest computed from the parts."""

from typing import Any

from medallion.refresh.additive_split import split_of
from medallion.refresh.aggregate_state import AggregateState, Source
from medallion.refresh.full import Written
from medallion.refresh.plan import FullRecompute, Refresh


def refresh_additive(refresh: Refresh) -> Written:
    """Bring the aggregate state of each part up to date, and overwrite the table from them."""
    lake, halves, notes = refresh.lake, split_of(refresh.table), []
    sources = {name: Source(name, lake.path(name), state) for name, state in refresh.inputs.items()}
    for name, part in halves.parts.items():
        aggregate = AggregateState(refresh, name, part, sources[part.input])
        try:
            state = aggregate.add_changes()
        except FullRecompute as reason:
            state = aggregate.rebuild()
            notes.append(f"rebuilt aggregate state for `{name}`: {reason}")
        sources[name] = Source(name, aggregate.path, state, part)
    frames: dict[str, Any] = {name: sources[name].rows(refresh.spark) for name in (*halves.inputs, *halves.sums)}
    rows = refresh.spark.sql(halves.rest, **frames)
    return refresh.overwrite(rows, "additive", "; ".join(notes) or None)
