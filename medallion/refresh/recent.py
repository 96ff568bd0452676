"""Latest rows: compute a table from the newest part of an input if only that part matters."""

from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

from medallion.model.methods import Recent
from medallion.model.refresh_method import RefreshMethod
from medallion.refresh.inputs import read_inputs
from medallion.refresh.plan import Refresh
from medallion.refresh.refresh_run import Written
from medallion.spark.delta_reads import read_table
from medallion.storage.deletion_vectors import deleted_positions, file_name
from medallion.storage.file_filter import FileFilter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def refresh_recent(refresh: Refresh, recent: Recent) -> Written:
    """Compute the table from the newest files of its input, and overwrite it."""
    frames = read_inputs(refresh.spark, refresh.lake, refresh.inputs, refresh.proof)
    frames[recent.input] = _newest_files(refresh, recent)
    return refresh.overwrite(refresh.spark.sql(refresh.table.query, **frames), RefreshMethod.LATEST_ROWS)


def _newest_files(refresh: Refresh, recent: Recent) -> "DataFrame":
    """Read the files that may have the newest rows, by their statistics; all files if one has no statistics."""
    state, path = refresh.inputs[recent.input], refresh.lake.path(recent.input)
    columns = refresh.proof.inputs.get(recent.input)
    ends, marked = state.actions.get(f"max.{recent.column}", [None]), deleted_positions(state.delta)
    # Where rows are deleted by position, the file keeps its bounds, and its newest row may be gone.
    exact = [end for name, end in zip(state.actions["path"], ends, strict=False) if file_name(name) not in marked]
    if None in ends or not exact:
        return read_table(refresh.spark, path, state, columns=columns)
    oldest = _oldest(max(exact), recent.span)
    newest_files = FileFilter(recent.column, lambda _, most: most >= oldest)
    return read_table(refresh.spark, path, state, newest_files, columns)


def _oldest(newest: "datetime | date", span: timedelta) -> "datetime | date":
    """Return the smallest value that may matter.

    For a DATE column, that is the whole day on which the span begins. For a timestamp, it is a second before the span,
    because statistics are cut to milliseconds.
    """
    if isinstance(newest, datetime):
        return newest - span - timedelta(seconds=1)
    return (datetime.combine(newest, time()) - span).date()
