"""The strategies that a refresh can choose, by name."""

from collections.abc import Callable

from medallion.model.table import STRATEGIES
from medallion.refresh.full import Written, refresh_full
from medallion.refresh.incremental import refresh_incremental

Refresh = Callable[..., Written]  # of (spark, lake, table, *, hour, run_id)

REFRESH: dict[str, Refresh] = {"full": refresh_full, "incremental": refresh_incremental}  # the benchmark adds others
assert tuple(REFRESH) == STRATEGIES, "a strategy of the DAG is missing"
