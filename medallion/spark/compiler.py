"""Choose the JIT compiler of a driver that refreshes one layer: short runs end before the C2 compiler pays off."""

from collections.abc import Iterable

from medallion.errors import MedallionError
from medallion.model.table import Table
from medallion.settings import Settings
from medallion.spark.configuration import is_local
from medallion.storage.lake import Lake

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
MAX_QUICK_BYTES = 64 << 20  # total size of the tables that the layer reads, each counted once


def compiler_options(settings: Settings, master: str, tables: Iterable[Table], strategy: str) -> str:
    """Return the JVM options for a driver that refreshes ``tables`` and exits; empty if the default is best."""
    if not is_local(master):  # the driver only plans; executors do the work
        return ""
    if strategy == "incremental":  # the work depends on the size of the change, not of the tables
        return QUICK_COMPILER
    lake = Lake.of(settings)
    try:
        states = [lake.state(name) for name in {name for table in tables for name in table.inputs}]
    except MedallionError:  # a damaged table: the refresh repairs it, or reports why it cannot
        return ""
    return QUICK_COMPILER if sum(state.bytes for state in states if state) <= MAX_QUICK_BYTES else ""
