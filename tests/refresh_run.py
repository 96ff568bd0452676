"""A run for tests that refresh tables without the steps around them."""

from typing import Any

from medallion.refresh.cost import RecentCosts
from medallion.refresh.run import RefreshRun
from medallion.spark.sessions import Sessions
from medallion.storage.lake import Lake


def refresh_run(lake: Lake, spark: Any = None, *, hour: str | None = None, run_id: str = "run") -> RefreshRun:
    """Make a run that nothing ran before; without ``spark`` it computes nothing."""
    return RefreshRun(lake, Sessions(spark), RecentCosts(lake), hour, run_id, "incremental")
