"""Analyse queries before anything is written, so that a typo costs seconds and never leaves half a refresh.

The SQL is parsed first, so that an error names module, line and the most similar column; then Spark analyses it over
empty tables. Definitions that pass are recorded in the lake, so each is analysed once.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from medallion.errors import MedallionError, one_line
from medallion.model.definition import definition_keys
from medallion.model.selection import select_tables
from medallion.model.table import Table
from medallion.ops.event_log import EventLog
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.lake import Lake

MAX_NAMED = 5  # most problems that a message names


def analyse_queries(run: Run, driver: Driver) -> None:
    """Raise MedallionError, before the first step of a run in this process, for a query that Spark would reject."""
    with driver.recording(run, "analyse") as log:
        require_sound_queries(driver, run, log)


def require_sound_queries(driver: Driver, run: Run, log: EventLog) -> None:
    """Raise MedallionError if Spark would reject a query of the run's tables; Spark is started if a query is new.

    Each table whose query is rejected becomes a failed event of ``log``.
    """
    if not (tables := _not_analysed(driver, run)):
        return
    require_known_columns(driver, run, log, tables)
    _refuse(log, tables, problems_by_spark(driver, log, tables))
    _record_analysed(driver, tables)


def problems_by_spark(driver: Driver, log: EventLog, tables: Iterable[Table]) -> dict[str, str]:
    """Return, by table, what Spark rejects in its query or why its refresh method could give other rows.

    Tables that are proven in refresh.lock are not checked again and need no Spark.
    """
    from medallion.pipeline.proven import proofs_of
    from medallion.spark.empty_frames import EmptyFrames

    names, underived = [table.name for table in tables], driver.derive_methods(log)
    nodes, problems, unread = driver.tables.tables, dict[str, str](), set[str]()
    known, frames = driver.locked_proofs(), None
    for table in (node for name in names if isinstance(node := nodes[name], Table)):
        if (problems.keys() | unread) & {*table.inputs}:
            unread.add(table.name)  # one of its upstream tables has a problem
            continue
        if table.name in underived:
            problems[table.name] = one_line(underived[table.name], 500)
            continue
        try:
            proof = proofs_of([table], nodes, lambda: driver.spark(log), known)[table.name]
            if proof.unproven:  # a Spark Connect server does not expose plans
                frames = frames or EmptyFrames(driver.spark(log), nodes)
                frames.analyse(table)
        except MedallionError as error:
            problems[table.name] = one_line(error, 500)
    return problems


def require_known_columns(driver: Driver, run: Run, log: EventLog, tables: Iterable[Table] | None = None) -> None:
    """Raise MedallionError if a query of the run's tables names a column that none of its inputs has; without Spark.

    tables: the tables that are not analysed yet, if the caller knows them.
    """
    tables = _not_analysed(driver, run) if tables is None else tables
    if not tables:
        return
    from medallion.model.parsed_query import Schemas
    from medallion.model.unknown_columns import unknown_columns

    schemas = Schemas(driver.tables.tables)
    _refuse(log, tables, {table.name: "; ".join(unknown_columns(table, schemas)) for table in tables})


def _not_analysed(driver: Driver, run: Run) -> list[Table]:
    """Return the tables of a run, in dependency order, whose definition was not analysed before."""
    selected = select_tables(driver.tables, run.select) if run.select else driver.tables.tables.keys()
    known, keys = _read_analysed(driver.lake), definition_keys(driver.tables.tables)
    return [
        table
        for table in driver.tables
        if isinstance(table, Table) and table.name in selected and known.get(table.name) != keys[table.name]
    ]


def _refuse(log: EventLog, tables: Iterable[Table], problems: Mapping[str, str]) -> None:
    """Record each table with a problem as failed and raise an error that names them; do nothing if there is none."""
    wrong = [table for table in tables if problems.get(table.name)]
    for table in wrong:
        log.add("refresh", table.layer, table.name, status="failed", details={"error": problems[table.name]})
    if wrong:
        more = f"; and {len(wrong) - MAX_NAMED} more" if len(wrong) > MAX_NAMED else ""
        first_problems = "; ".join(problems[table.name] for table in wrong[:MAX_NAMED])
        raise MedallionError(f"nothing was written: {first_problems}{more}")


def _record_analysed(driver: Driver, tables: Iterable[Table]) -> None:
    keys = definition_keys(driver.tables.tables)
    known = {**_read_analysed(driver.lake), **{table.name: keys[table.name] for table in tables}}
    retained = {name: key for name, key in known.items() if name in keys}
    files.write_json(_record(driver.lake), {"spark": _spark_version(), "queries": retained})


def _read_analysed(lake: Lake) -> dict[str, str]:
    """Return, by table, the key of the definition that this version of Spark has accepted."""

    def parse(content: dict[str, Any]) -> dict[str, str]:
        return dict(content["queries"]) if content["spark"] == _spark_version() else {}

    return files.read_record_if_whole(_record(lake), parse, "every query is analysed again") or {}


@cache
def _spark_version() -> str:
    return version("pyspark")


def _record(lake: Lake) -> Place:
    return lake.at(lake.ops("analysed_queries.json"))
