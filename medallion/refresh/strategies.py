"""What a strategy is, and those that a refresh can choose, by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from medallion.model.table import Table
from medallion.refresh.commits import Written
from medallion.refresh.full import refresh_full
from medallion.refresh.incremental import refresh_incremental
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Strategy(Protocol):
    """Bring one table to its inputs' current versions in one commit, or none where it is there already."""

    def __call__(
        self, spark: "SparkSession", lake: Lake, table: Table, /, *, hour: str | None, run_id: str
    ) -> Written: ...


Strategies = Mapping[str, Strategy]
ENGINE_STRATEGIES: Strategies = MappingProxyType({"full": refresh_full, "incremental": refresh_incremental})
