"""Incremental aggregates: add a change to the state of each part, then compute the rest of the query from the parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.model.additive_split import split_of
from medallion.model.kept_text import INEXACT, group_names, inputs_of, relation_text
from medallion.model.methods import Additive, Kept
from medallion.model.refresh_method import RefreshMethod, StateWork
from medallion.model.table import Table
from medallion.refresh.aggregate_state import AggregateState, Source
from medallion.refresh.commits import SMALL_ROWS
from medallion.refresh.kept_state import KeptState, changed_whole
from medallion.refresh.plan import ChangedSince, FullRecompute, NoneExisted, Refresh, Target, oversized
from medallion.refresh.refresh_run import Written
from medallion.spark.delta_reads import read_table
from medallion.storage.lake import TableState, state_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Bytes of the summed inputs: below this, summing them again is cheaper than committing state for each part.
MIN_STATE_INPUT_BYTES = 12 << 20
SMALL_INPUTS = "its inputs are small: aggregate state would cost more than it saves"

State = AggregateState | KeptState


def refresh_additive(refresh: Refresh) -> Written:
    """Update the aggregate state of each part, then the table."""
    notes: list[str] = []
    works: list[StateWork] = []
    warnings: list[str] = []

    def add_changes(aggregate: State) -> TableState:
        try:
            return aggregate.add_changes()
        except FullRecompute as reason:
            started = perf_counter()
            state = aggregate.rebuild()
            took = f"took {perf_counter() - started:.1f} s: {reason}"
            works.append(StateWork.SET_UP if isinstance(reason, NoneExisted) else StateWork.REBUILT)
            notes.append(f"rebuilt aggregate state for `{aggregate.name}`, which {took}")
            if isinstance(reason, ChangedSince):
                warnings.append(notes[-1])
            return state

    rows = rows_from_parts(refresh, add_changes)
    work = max(works, key=[*StateWork].index, default=None)
    if work is StateWork.SET_UP:
        notes.insert(0, "building incremental state: once")
    try:
        written = refresh.overwrite(rows, RefreshMethod.INCREMENTAL_AGGREGATE, "; ".join(notes) or None)
    except Exception as error:
        if is_inexact(error):
            raise FullRecompute("an average of it has too many rows, or too large a sum, to be exact") from None
        raise
    return replace(written, state_work=work, warning="; ".join(warnings) or written.warning)


def rows_from_parts(target: Target, update: Callable[[State], TableState]) -> "DataFrame":
    """Compute the table's rows from the aggregate state of its parts, which ``update`` brings up to date first."""
    if isinstance(target.table.method, Kept):
        return _rows_from_kept(target, target.table.method, update)
    lake, halves = target.lake, split_of(target.table)
    columns = target.proof.inputs
    sources = {n: Source(n, lake.path(n), state, columns=columns.get(n)) for n, state in target.inputs.items()}
    for name, part in halves.parts.items():
        aggregate = AggregateState(target, name, part, sources[part.input])
        sources[name] = Source(name, aggregate.log.path, update(aggregate), part)
    frames: dict[str, Any] = {name: sources[name].rows(target.spark) for name in (*halves.inputs, *halves.sums)}
    return target.spark.sql(halves.rest, **frames)


def _rows_from_kept(target: Target, method: Kept, update: Callable[[State], TableState]) -> "DataFrame":
    frames: dict[str, Any] = {}
    for part in method.parts:
        kept = KeptState(target, part)
        frames[part.name] = kept.rows(update(kept))
    for name in inputs_of(method.rest):
        if name in target.inputs:
            columns = target.proof.inputs[name]
            frames[name] = read_table(target.spark, target.lake.path(name), target.inputs[name], columns=columns)
    return target.spark.sql(method.rest, **frames)


def is_inexact(error: Exception) -> bool:
    """Whether some sum is too large to give the same average from state as Spark computes from rows."""
    return INEXACT in str(error)


def is_worth_state(table: Table, sizes: Mapping[str, int]) -> bool:
    """Whether keeping aggregate state pays: its inputs are large, or the table's policy ignores cost.

    sizes: bytes by input of the table.
    """
    if table.refresh != "auto":
        return True
    read = {name for names in _inputs_by_part(table).values() for name in names}.intersection(sizes)
    return sum(sizes[name] for name in read) >= MIN_STATE_INPUT_BYTES


def reason_to_recompute(refresh: Refresh) -> str | None:
    """Return why state cannot follow this change, or would cost more than a recompute; None if it is to be followed."""
    if reason := _oversized_sum(refresh):
        return reason
    method = refresh.table.method
    if not isinstance(method, Kept) or refresh.table.refresh != "auto":
        return None
    # To rebuild state costs more than a recompute, and an input that is read whole may change every hour.
    return changed_whole(method.parts, refresh.changes)


def _oversized_sum(refresh: Refresh) -> str | None:
    """Return a summed input that has changed too much to follow, if there is one."""
    summed = {name for names in _inputs_by_part(refresh.table).values() for name in names}
    return oversized({name: change for name, change in refresh.changes.items() if name in summed}, refresh.inputs)


def has_small_state(target: Target) -> bool:
    """Whether aggregate state exists and is small enough for a full recompute to rewrite it at hardly any cost."""
    for name in _inputs_by_part(target.table):
        try:
            delta = target.lake.open(target.lake.aggregate_state_path(target.table.name, name))
        except MedallionError:  # it is rebuilt when it is needed
            return False
        if delta is None or state_of(delta).rows > SMALL_ROWS:
            return False
    return True


def state_groups(table: Table) -> dict[str, Sequence[str]]:
    """Return, for each part with aggregate state, the columns of the state that identify a group."""
    if isinstance(table.method, Kept):
        return {part.name: group_names(part) for part in table.method.parts}
    return (
        {name: part.keys for name, part in split_of(table).parts.items()} if isinstance(table.method, Additive) else {}
    )


def _inputs_by_part(table: Table) -> dict[str, tuple[str, ...]]:
    """Return, for each part with aggregate state, what it is summed from: inputs of the table or other parts."""
    if isinstance(table.method, Kept):
        return {part.name: inputs_of(relation_text(part)) for part in table.method.parts}
    return {name: (part.input,) for name, part in split_of(table).parts.items()}
