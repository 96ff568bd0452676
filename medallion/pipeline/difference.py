"""Report which rows differ between two releases, after a restatement or a rebuild."""

from dataclasses import replace

from medallion.errors import MedallionError
from medallion.inspect.query import diff
from medallion.ops.releases import Release
from medallion.pipeline.driver import Driver
from medallion.storage.lake import Lake, state_of
from medallion.storage.named_versions import open_named

DIFF_MAX_ROWS, DIFF_MAX_BYTES = 500_000, 64 << 20  # largest table that is compared row by row


def report_difference(driver: Driver, before: Release, after: Release) -> None:
    """Report for each table that differs how many rows do; for a large table, only the command that compares it."""
    by_table = f"medallion release diff {before.release_id} {after.release_id} --table"
    small = {table.name: table for table in driver.tables if _is_small(driver.lake, table.name, before, after)}
    for table in filter(None, diff(driver.lake, before, after, replace(driver.tables, tables=small))):
        driver.report(f"{table.table}: {table.added:,} added, {table.removed:,} removed, {table.changed:,} changed")
    if large := [name for name in driver.tables.tables if name not in small]:
        driver.report(f"not compared, being large or rebuilt since: {', '.join(large)}; run {by_table} NAME for each")
    driver.report(f"row by row: {by_table} NAME")


def _is_small(lake: Lake, table: str, *ends: Release) -> bool:
    """Check whether two releases of ``table`` are small enough to compare at once; equal versions always are."""
    versions = [release.version_of(table) for release in ends]
    if None in versions or len({(version.version, version.table_id) for version in versions if version}) == 1:
        return True
    try:
        states = [state_of(open_named(lake, version)) for version in versions if version]
    except MedallionError:  # it was rebuilt since, and the former version is gone
        return False
    return all(state.rows <= DIFF_MAX_ROWS and state.bytes <= DIFF_MAX_BYTES for state in states)
