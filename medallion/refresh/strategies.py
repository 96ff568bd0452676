"""The strategies of a refresh, by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from medallion.model.table import Table
from medallion.refresh.full import refresh_full
from medallion.refresh.incremental import refresh_incremental
from medallion.refresh.refresh_run import RefreshRun, Written


class Strategy(Protocol):
    """Bring one table to its inputs' current versions in one commit, or in none if it is current."""

    def __call__(self, run: RefreshRun, table: Table, /) -> Written: ...


Strategies = Mapping[str, Strategy]
ENGINE_STRATEGIES: Strategies = MappingProxyType({"full": refresh_full, "incremental": refresh_incremental})
