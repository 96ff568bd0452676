"""Rows that another engine has computed, published as a release so that they are compared as any other's."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from medallion.model.table import Table
from medallion.ops import releases
from medallion.project import find_project
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    import pyarrow as pa


def publish_copies(lake: Lake, hour: str, strategy: str, rows: "Callable[[str], pa.Table]") -> None:
    """Publish what another engine made of Silver and Gold, ``rows`` by table, so that it is compared as any release."""
    from deltalake import write_deltalake

    versions = {}
    for table in find_project().registry():
        if isinstance(table, Table):
            write_deltalake(lake.path(table.name), rows(table.name), mode="overwrite", schema_mode="overwrite")
            versions[table.name] = lake.version(table.name) or 0
    last = releases.latest(lake)
    run_id = f"bench-{hour}"
    releases.publish(
        lake, after=last, hour=hour, run_id=run_id, strategy=strategy, contents=releases.Contents(versions)
    )
