"""Hold a release under a name, and let go of it, as the one writer of the lake: no upkeep removes it meanwhile."""

from medallion.ingest.unfinished_erasure import require_no_erasure
from medallion.ops import releases
from medallion.ops.holds import add_hold, end_hold, require_free_name, require_hold
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run


def hold(run: Run, driver: Driver, name: str, number: int | None) -> Outcome:
    """Hold a release under ``name``: release ``number``, else the newest.

    Raises UsageError if there is no such release, the name is taken, or an erasure that was cut short may drop it.
    """
    require_free_name(driver.lake, name)  # before it waits for another writer
    with driver.writing(run, "hold"):
        require_no_erasure(driver.lake, "nothing is held")
        held = add_hold(driver.lake, name, releases.require_release(driver.lake, number).release_id)
    return driver.report_outcome(Outcome("succeeded", f"release {held.release_id} is held as {name}", None))


def unhold(run: Run, driver: Driver, name: str) -> Outcome:
    """No longer hold a release under ``name``. Raises UsageError, with the known names, if none is held so."""
    require_hold(driver.lake, name)
    with driver.writing(run, "unhold"):
        held = end_hold(driver.lake, name)
    return driver.report_outcome(Outcome("succeeded", f"release {held.release_id} is no longer held as {name}", None))
