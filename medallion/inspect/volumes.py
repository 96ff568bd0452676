"""Row counts of tables at each check."""

from collections.abc import Mapping

from medallion.ops import event_log
from medallion.storage.lake import Lake


def read_row_counts(lake: Lake) -> dict[str, Mapping[str, int]]:
    """Return row counts by table and hour, from the checks of the 7 days before the newest event, oldest first."""
    counted: dict[str, dict[str, int]] = {}
    for row in event_log.read(lake, event_log.RECENT, ("table_name", "hour", "rows_in"), event_type="check"):
        if row.table_name and row.rows_in is not None:
            counted.setdefault(row.table_name, {})[row.hour or "snapshot"] = row.rows_in
    return dict(counted)
