"""Full refresh of a table: recompute it from its inputs and overwrite it."""

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.model.methods import Additive, ByKey, Kept
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Table
from medallion.refresh.additive import has_small_state, is_inexact, is_worth_state, rows_from_parts
from medallion.refresh.commits import commit_metadata, files_by_key, overwrite, pruned_by
from medallion.refresh.inputs import input_states, read_inputs
from medallion.refresh.plan import Target
from medallion.refresh.refresh_run import RefreshRun, Written
from medallion.spark.configuration import BOUNDED, table_properties
from medallion.spark.delta_reads import schema_of
from medallion.spark.session import explained
from medallion.storage.added_files import lost_file
from medallion.storage.damage import proven_damage
from medallion.storage.delta_writes import identifier
from medallion.storage.foreign_commits import provenance, stamped
from medallion.storage.lake import TableState, state_of
from medallion.storage.table_features import note_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def refresh_full(run: RefreshRun, table: Table) -> Written:
    """Recompute ``table`` from its inputs' current versions and overwrite it in one commit.

    The first write, and one that changes the columns, clusters a table that is upserted by its key, so that a change
    touches few files; other writes do not pay for that.

    Raises:
        MedallionError: An input has not been written, the table cannot be opened, or Spark failed.
    """
    lake, run = run.lake, replace(run, strategy="full")
    inputs = input_states(lake, table)
    former, warning = former_or_moved(run, table)
    with explained(f"{table.name} could not be computed"):
        if former and (lineage := provenance(lake.folder(table.name), former.version)).changes:
            warning = f"recomputed, as somebody else changed it: {lineage.describe()}"
        target = Target(run, table, inputs)
        try:
            state = _write(target, former, _computed_rows(target, is_first=former is None))
        except Exception as error:
            if is_inexact(error):
                state = _write(target, former, _queried_rows(target))
            elif former is not None and (lost := lost_part(run, table)):
                warning = move_aside(run, table, lost)
                state = _write(target, None, _queried_rows(target))
            else:
                raise
    warning = warning or note_of(state.delta)
    return Written.whole(state, inputs, warning=warning)


def _computed_rows(target: Target, *, is_first: bool) -> "DataFrame":
    """Compute all rows of the table.

    Where aggregate state pays, the first refresh builds it and computes the rows from it. Later ones do so while the
    state is small, so that the next change can be added to it.
    """
    table = target.table
    is_additive = isinstance(table.method, Additive | Kept) and not target.proof.unproven
    if is_additive and (is_first or has_small_state(target)) and is_worth_state(table, target.input_bytes):
        return rows_from_parts(target, lambda state: state.rebuild())
    return _queried_rows(target)


def _queried_rows(target: Target) -> "DataFrame":
    """Compute all rows of the table by its query."""
    return target.spark.sql(target.table.query, **read_inputs(target.spark, target.lake, target.inputs, target.proof))


def _write(target: Target, former: TableState | None, rows: "DataFrame") -> TableState:
    """Replace all rows of the table, and its columns where they differ, in one commit."""
    lake, table = target.lake, target.table
    commit = partial(commit_metadata, table, target.run, target.inputs, RefreshMethod.FULL_RECOMPUTE)
    if former and _columns(schema_of(former.delta)) == _columns(rows.schema):
        return overwrite(lake, table, rows, former, commit)
    if former:
        _forget_bounds_of_missing_columns(target, former, rows.columns)
    files = 1
    if isinstance(by := table.method, ByKey):
        largest = max(target.inputs.values(), key=lambda state: state.rows)
        files = files_by_key(largest, lake.marks_from)
        rows = rows.repartitionByRange(files, by.column).sortWithinPartitions(by.column)
    (
        rows.write.format("delta")
        .mode("overwrite")
        .options(**table_properties((name, rows.schema[name].dataType.simpleString()) for name in pruned_by(table)))
        .option("overwriteSchema", "true")
        .option("userMetadata", stamped(commit(None, clustered=files > 1), former.delta if former else None))
        .save(lake.path(table.name))
    )
    return state_of(lake.opened(lake.path(table.name)))


def _forget_bounds_of_missing_columns(target: Target, former: TableState, columns: list[str]) -> None:
    """Unset the property of a table that names columns with bounds, if one of them goes: Delta would refuse the write.

    Files then have bounds of the first 32 columns. The commit repeats the metadata of the rows, which stay as they are.
    """
    bounded = former.delta.metadata().configuration.get(BOUNDED, "")
    if not bounded or {name.strip("` ") for name in bounded.split(",")} <= {*columns}:
        return
    path = target.lake.path(target.table.name)
    origin = provenance(target.lake.folder(target.table.name), former.version).origin
    of_commit = {"spark.databricks.delta.commitInfo.userMetadata": stamped(json.dumps(origin), former.delta)}
    session = target.run.sessions.for_table(target.table.name, of_commit)
    session.sql(f"ALTER TABLE {identifier(path)} UNSET TBLPROPERTIES IF EXISTS ('{BOUNDED}')")
    former.delta.update_incremental()


def _columns(schema: Any) -> list[tuple[str, Any]]:
    return [(field.name, field.dataType) for field in schema]


def former_or_moved(run: RefreshRun, table: Table) -> tuple[TableState | None, str | None]:
    """Return the table before its refresh. If it is proven to be damaged, it is moved away: then None, and a note.

    Raises MedallionError if it cannot be opened for another reason: that may be temporary, and the table is intact.
    """
    try:
        delta = run.lake.open(run.lake.path(table.name))
    except MedallionError:
        if (damage := proven_damage(run.lake.folder(table.name))) is None:
            raise
        return None, move_aside(run, table, f"{damage} in the log of {table.name}")
    try:
        return (None if delta is None else state_of(delta)), None
    except MedallionError:
        if (lost := lost_part(run, table)) is None:
            raise
        return None, move_aside(run, table, lost)


def lost_part(run: RefreshRun, table: Table) -> str | None:
    """Say which file of a table is gone that its newest version needs; None if none is, or that cannot be found out."""
    try:
        delta = run.lake.open(run.lake.path(table.name))
        name = None if delta is None else lost_file(delta, run.lake.folder(table.name))
    except (OSError, MedallionError):
        return None
    return f"{name} of {table.name} is gone" if name else None


def move_aside(run: RefreshRun, table: Table, damage: str) -> str:
    """Move a damaged table away, and return a note."""
    moved_to = run.lake.move_damaged_table(table.name)
    run.sessions.forget_logs()
    return f"rebuilt, as {damage}; what was there is in {moved_to}"
