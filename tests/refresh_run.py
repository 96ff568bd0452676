"""A run for tests that refresh tables without the steps around them."""

from typing import Any

from medallion.model.proof import proven_before
from medallion.model.proven import Proof
from medallion.model.registry import Registry
from medallion.model.table import Table
from medallion.refresh.cost import RecentCosts
from medallion.refresh.refresh_run import RefreshRun
from medallion.spark.sessions import Sessions
from medallion.storage.lake import Lake
from tests.proving import prove
from tests.shop import registry


def refresh_run(
    lake: Lake, spark: Any = None, *, hour: str | None = None, run_id: str = "run", tables: Registry | None = None
) -> RefreshRun:
    """Make a run that nothing ran before; without ``spark`` it computes nothing."""
    tables = tables or registry(extras=True)

    def proof_of(table: Table) -> Proof:
        if spark is None:  # nothing is computed, so nothing has to be proven
            return Proof(table.name, "", table.fingerprint, table.refresh_method, (), {})
        return proven_before(table) or prove([table], tables.tables)[table.name]

    return RefreshRun(lake, Sessions(spark), RecentCosts(lake), hour, run_id, "incremental", tables, proof_of)
