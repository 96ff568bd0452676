"""Refresh a table by processing only what changed, from the same definition that a full refresh uses.

The metadata of each commit names the input versions that its rows were computed from, so the logs alone show what is
new to a table, even after a crash or a full refresh. If that is unknown or too much, the table is recomputed and the
event log says why.
"""

from dataclasses import replace

from medallion.errors import MedallionError
from medallion.model.methods import Additive, ByKey, Full, Kept, Recent
from medallion.model.refresh_method import NO_INPUT_CHANGED, RefreshMethod
from medallion.model.table import Table
from medallion.refresh.additive import SMALL_INPUTS, is_worth_state, reason_to_recompute, refresh_additive
from medallion.refresh.by_key import find_touched_keys, upsert
from medallion.refresh.full import lost_part, refresh_full
from medallion.refresh.inputs import changes_since, input_states, read_inputs
from medallion.refresh.plan import FullByChoice, FullRecompute, ProofViolated, Refresh, former_state
from medallion.refresh.recent import refresh_recent
from medallion.refresh.refresh_run import RefreshRun, Written
from medallion.spark.session import explained
from medallion.storage.fence import LeaseLost
from medallion.storage.files import read_json, write_json


def refresh_incremental(run: RefreshRun, table: Table) -> Written:
    """Bring ``table`` to its inputs' current versions; rows are replaced in one commit, or none if no input changed.

    The rows are the same as those of refresh_full.

    Returns:
        What was written, with the method, and the reason if the table was recomputed instead.

    Raises:
        MedallionError: An input has not been written, or Spark failed; the rows of the table are unchanged.
    """
    try:
        return _refresh(_plan(replace(run, strategy="incremental"), table))
    except ProofViolated as violation:
        written = refresh_full(run, table)
        return replace(written, note=f"full recompute: {violation}", warning=str(violation))
    except FullByChoice as reason:
        return _recompute_by_choice(run, table, reason)
    except FullRecompute as reason:
        return replace(refresh_full(run, table), note=f"full recompute: {reason}")
    except Exception:
        if (lost := lost_part(run, table)) is None:
            raise
        written = refresh_full(run, table)
        return replace(written, note=f"full recompute: {lost}", warning=written.warning or f"recomputed, as {lost}")


def _recompute_by_choice(run: RefreshRun, table: Table, reason: FullByChoice) -> Written:
    """Recompute a table though it could be refreshed incrementally; if that fails, do the latter and warn.

    A mark says that it has begun. If the process is killed, for want of memory perhaps, the next try of the hour finds
    the mark, and does not choose the same again.
    """
    mark, begun = run.lake.full_by_choice(table.name), {"hour": run.hour}
    if read_json(mark, "remove it") != begun:
        write_json(mark, begun)
        try:
            written = replace(refresh_full(run, table), note=f"full recompute: {reason}")
        except LeaseLost:  # another process is the writer now: nothing may be written in another way either
            raise
        except MedallionError as error:
            failure = f"a full recompute was tried and failed: {error}"
        else:
            mark.unlink(missing_ok=True)
            return written
    else:
        failure = "the process of this hour ended while it tried a full recompute"
    written = refresh_incremental(replace(run, judges_cost=False), table)
    mark.unlink(missing_ok=True)
    return replace(written, full_failed=True, warning=written.warning or f"refreshed incrementally, as {failure}")


def _plan(run: RefreshRun, table: Table) -> Refresh:
    """Collect what an incremental refresh needs to know. Raises FullRecompute if something is missing."""
    lake, inputs = run.lake, input_states(run.lake, table)
    if reason := run.proof_of(table).unproven:
        raise FullRecompute(reason)
    former, origin = former_state(lake, lake.path(table.name), table, inputs)
    if origin.get("proof") != run.proof_of(table).fingerprint:
        raise FullRecompute("its definition, or the columns of an input, have changed")
    by_input = {name: changes_since(lake.folder(name), name, state, origin) for name, state in inputs.items()}
    return Refresh(run, table, inputs, former, origin, by_input)


def _refresh(refresh: Refresh) -> Written:
    if not any(refresh.changes.values()):
        return Written.unchanged(refresh.keep_unchanged(), refresh.inputs, NO_INPUT_CHANGED)
    method, size = refresh.table.method, refresh.changed_bytes
    if isinstance(method, Additive | Kept | Recent):
        refresh.require_cheap(size, sum(refresh.input_bytes.values()), f"{size / 1e6:.1f} MB of changes")
    with explained(f"{refresh.table.name} could not be refreshed"):
        match method:
            case ByKey():
                if keys := find_touched_keys(refresh, method):
                    return upsert(refresh, method, keys)
                # For example a change of a customer without orders.
                version = refresh.record_input_versions()
                return Written.unchanged(version, refresh.inputs, "no row follows from what changed")
            case Additive() | Kept():
                # The state catches up when a later, small change is worth following.
                if reason := reason_to_recompute(refresh):
                    raise FullRecompute(reason)
                if not is_worth_state(refresh.table, refresh.input_bytes):
                    return _recompute_small(refresh, SMALL_INPUTS)
                return replace(refresh_additive(refresh), changed=size)
            case Recent():
                return replace(refresh_recent(refresh, method), changed=size)
        reason = method.reason if isinstance(method, Full) else ""
        return _recompute_small(refresh, reason or "it is always recomputed")


def _recompute_small(refresh: Refresh, note: str) -> Written:
    """Compute the table from all rows of its inputs, in the session for small jobs."""
    refresh = replace(refresh, run=replace(refresh.run, strategy="full"))
    rows = refresh.spark.sql(
        refresh.table.query, **read_inputs(refresh.spark, refresh.lake, refresh.inputs, refresh.proof)
    )
    return replace(refresh.overwrite(rows, RefreshMethod.FULL_RECOMPUTE, note), strategy="full")
