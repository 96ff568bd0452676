"""Find tables that are behind their inputs: no release may name them, and later steps wait for them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from medallion.errors import MedallionError, advice
from medallion.ingest import ledger
from medallion.model.selection import read_from, select_tables
from medallion.model.table import Node, Table
from medallion.ops.event_log import EventLog
from medallion.ops.event_schema import EventType
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run
from medallion.storage.foreign_commits import ChangedByOthers, require_ours
from medallion.storage.lake import table_id

if TYPE_CHECKING:
    from deltalake import DeltaTable


def find_outdated_input(driver: Driver, table: Node, tables: "Mapping[str, DeltaTable]") -> str | None:
    """Say which input of ``table`` has changed or was rebuilt since the table was computed; None if none has.

    tables: the opened table and its inputs. Raises ChangedByOthers if another program has changed the table.
    """
    if not isinstance(table, Table):
        return None
    origin = require_ours(driver.lake, table.name, tables[table.name].version()).origin
    consumed, ids, commits = origin.get("inputs", {}), origin.get("tables", {}), origin.get("commits", {})
    for name in table.inputs:
        if name in ids and ids[name] != table_id(tables[name]):
            return f"{table.name} was computed from a table {name} that was rebuilt since"
        if not driver.lake.same_rows(name, consumed.get(name), tables[name].version(), commits.get(name)):
            return (
                f"{table.name} was computed from version {consumed.get(name)} of {name}, which is at"
                f" {tables[name].version()} now"
            )
    return None


def _is_outdated(driver: Driver, table: Node, tables: "Mapping[str, DeltaTable]") -> bool:
    try:
        return find_outdated_input(driver, table, tables) is not None
    except ChangedByOthers:
        return True


def tables_left_behind(driver: Driver, layer: str | None = None) -> list[str]:
    """Return the tables that were not computed from the current Bronze, in dependency order.

    layer: only those up to this layer; None for all.
    """
    opened: dict[str, DeltaTable] = {}
    outdated = set()
    for table in driver.tables:
        delta = driver.lake.open(driver.lake.path(table.name))
        if delta is not None:
            opened[table.name] = delta
        if delta is None or any(name not in opened for name in table.inputs) or _is_outdated(driver, table, opened):
            outdated.add(table.name)
    behind = read_from(driver.tables, outdated)
    layers = driver.tables.declared_layers
    layers = layers[: layers.index(layer) + 1] if layer else layers
    return [table.name for table in driver.tables if table.name in behind and table.layer in layers]


def require_refreshed(driver: Driver, layer: str) -> None:
    """Raise MedallionError if a table of ``layer``, or one below it, was not computed from the current Bronze.

    Its rows are those of an earlier hour, so a verdict would blame the wrong lines.
    """
    if behind := tables_left_behind(driver, layer):
        first, hour = driver.tables[behind[0]].layer, ledger.applied_hour(driver.lake, driver.tables)
        of_hour = f" --hour {hour}" if hour else ""
        raise MedallionError(
            f"the {layer} layer is not checked: {behind[0]} was not refreshed after its inputs changed; run medallion"
            f" step refresh --layer {first}{of_hour} first (in Airflow: clear the task {first}.refresh)"
        )


def defer_step(driver: Driver, run: Run, log: EventLog, step: EventType, layer: str | None) -> Outcome | None:
    """Skip a step of a run that selects tables while tables that the step covers are behind their inputs.

    Returns how the skipped step ended; None if the step need not be skipped.
    """
    if not run.select or not (behind := tables_left_behind(driver, layer)):
        return None
    where = f"{layer} {step}" if layer else step
    first, *more = behind
    who = f"{first} and {len(more)} more are" if more else f"{first} is"
    note = (
        f"{where} waits: {who} left behind by the selection {run.select}; readers keep the release they have:"
        f" {advice.refresh_all_tables()}"
    )
    if waiting := select_tables(driver.tables, run.select).intersection(behind):
        note += f"; {min(waiting)} waits for its inputs: select +{min(waiting)} to refresh them with it"
    with log.timed(step, layer) as event:
        return driver.skip(run, event, note)
