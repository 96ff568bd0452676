"""Refreshing a table by touching what changed, from the definition that a full refresh recomputes.

The metadata of each commit names the versions of its inputs that its rows follow from, so what is new to a table is
known from the logs alone, after a crash as after a run in full. Where that is not known, or is much, the table is
recomputed, and the event log says why.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Additive, ByKey, Recent, Table
from medallion.refresh.additive import is_worth_state, oversized_sum, refresh_additive
from medallion.refresh.by_key import refresh_by_key
from medallion.refresh.commits import RefreshRun, Written, input_states, read_inputs
from medallion.refresh.cost import Costs, known_costs
from medallion.refresh.full import recompute
from medallion.refresh.plan import FullRecompute, Refresh, TooLarge, former_state
from medallion.refresh.recent import refresh_recent
from medallion.spark.session import explained
from medallion.spark.small_jobs import small_job_session
from medallion.storage.change_feed import changes
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refresh_incremental(spark: "SparkSession", lake: Lake, table: Table, *, hour: str | None, run_id: str) -> Written:
    """Bring ``table`` to its inputs' current versions in one commit, or none where no input changed.

    The rows are those that refresh_full gives.
    """
    run = RefreshRun(hour, run_id, "incremental")
    try:
        refresh = _plan(small_job_session(spark), lake, table, run)
        return _refresh(refresh)
    except FullRecompute as reason:
        written = recompute(spark, lake, table, replace(run, strategy="full"))
        return replace(written, note=f"full recompute: {reason}")


def _plan(spark: "SparkSession", lake: Lake, table: Table, run: RefreshRun) -> Refresh:
    """All that is known before a method is chosen. Raises FullRecompute when that is not enough."""
    inputs = input_states(lake, table)
    former, origin = former_state(lake, lake.path(table.name), table, inputs)
    known = origin["inputs"]
    by_input = {name: changes(lake.folder(name), known[name], state.version) for name, state in inputs.items()}
    costs = _costs(lake, run.run_id).get(table.name, Costs())
    return Refresh(spark, lake, table, run, inputs, former, origin, by_input, costs)


def _refresh(refresh: Refresh) -> Written:
    if not any(refresh.changes.values()):
        return Written.unchanged(refresh.keep_unchanged(), refresh.inputs, "no input has changed")
    method, size = refresh.table.incremental, refresh.changed_bytes
    if isinstance(method, Additive | Recent):
        refresh.require_cheap(size, f"{size / 1e6:.1f} MB of changes")
    with explained(f"{refresh.table.name} could not be refreshed"):
        match method:
            case ByKey():
                return refresh_by_key(refresh, method)
            case Additive():
                if reason := oversized_sum(refresh):  # its state catches up when a small change makes it worth having
                    raise TooLarge(reason)
                if not is_worth_state(refresh):
                    return _recompute_small(
                        refresh, "its inputs are small: aggregate state would cost more than it saves"
                    )
                return replace(refresh_additive(refresh), changed=size)
            case Recent():
                return replace(refresh_recent(refresh, method), changed=size)
        return _recompute_small(refresh, "it is small and always recomputed")


def _recompute_small(refresh: Refresh, note: str) -> Written:
    """Compute the table from all rows of its inputs, in the session for small jobs."""
    refresh = replace(refresh, run=replace(refresh.run, strategy="full"))
    rows = refresh.spark.sql(refresh.table.query, **read_inputs(refresh.spark, refresh.lake, refresh.inputs))
    return replace(refresh.overwrite(rows, RefreshMethod.FULL_RECOMPUTE, note), strategy="full")


def _costs(lake: Lake, run_id: str) -> Mapping[str, Costs]:
    """What tables took lately, read once a run: an hour's own refreshes say nothing about themselves."""
    with _READING:  # tables are refreshed side by side, and the first ones ask at once
        return _costs_before(lake, run_id)


@lru_cache(maxsize=4)
def _costs_before(lake: Lake, _run_id: str) -> Mapping[str, Costs]:
    return known_costs(lake)


_READING = Lock()
