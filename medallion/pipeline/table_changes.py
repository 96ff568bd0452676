"""Add and drop tables of a lake, between two hours."""

from medallion.counts import counted
from medallion.errors import UsageError, advice
from medallion.hours import hour_or_snapshot
from medallion.ingest import ledger
from medallion.ops import lake_tables, releases
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run


def add_extra_tables(run: Run, driver: Driver) -> str:
    """Add the extra tables to the lake and return a sentence about it.

    Raises UsageError if the lake has them already, or while an hour is being refreshed.
    """
    with driver.writing(run, "tables"):
        _require_no_hour_under_way(driver)
        names = lake_tables.add_extras(driver.lake)
    return f"{len(names)} tables are added: the next hour that is refreshed builds and publishes them"


def drop_tables(run: Run, driver: Driver, name: str) -> str:
    """Drop a table, or all extra tables, from the next release and return a sentence about it.

    Raises UsageError for a table that cannot be dropped, and for the extra tables while an hour is being refreshed.
    """
    lake_tables.require_droppable(driver.lake, name)  # report a mistyped name before waiting for the lock
    with driver.writing(run, "tables"):
        # A single table is no longer declared, so it takes part in no hour, and publish waits for its drop.
        if name == lake_tables.EXTRAS:
            _require_no_hour_under_way(driver)
        names = lake_tables.drop_tables(driver.lake, name)
    return (
        f"dropped {counted(len(names), 'table')}: the next release will not have {', '.join(names)};"
        " files stay, and releases up to now still name them"
    )


def _require_no_hour_under_way(driver: Driver) -> None:
    """Raise UsageError while an hour is applied but not published, so that the tables of an hour stay the same."""
    release = releases.require_release(driver.lake, None)
    if (applied := ledger.applied_hour(driver.lake, driver.tables)) != release.hour:
        raise UsageError(
            f"{hour_or_snapshot(applied)} is in Bronze and not published yet: to finish it,"
            f" {advice.refresh(applied)}, then change the tables"
        )
