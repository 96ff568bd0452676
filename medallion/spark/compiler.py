"""Which of the JVM's compilers a driver has that refreshes one layer: a short one ends before the slow one pays off."""

from collections.abc import Iterable

from medallion.errors import MedallionError
from medallion.model.table import Table
from medallion.settings import Settings
from medallion.spark.configuration import is_local
from medallion.storage.lake import Lake

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
MAX_QUICK_BYTES = 64 << 20  # that the layer's tables read, each once


def compiler_options(settings: Settings, master: str, tables: Iterable[Table], strategy: str) -> str:
    """Return the JVM options for a driver that refreshes ``tables`` and ends; empty where the default suits it."""
    if not is_local(master):  # it plans, and others do the work
        return ""
    if strategy == "incremental":  # its work follows the change, whatever the tables hold
        return QUICK_COMPILER
    lake = Lake.of(settings)
    try:
        states = [lake.state(name) for name in {name for table in tables for name in table.inputs}]
    except MedallionError:  # a damaged table: the refresh mends it, or says why it cannot
        return ""
    return QUICK_COMPILER if sum(state.bytes for state in states if state) <= MAX_QUICK_BYTES else ""
