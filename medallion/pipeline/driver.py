"""The state that the steps of one process share."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from threading import Lock
from time import process_time, time
from typing import TYPE_CHECKING

from medallion.errors import MedallionError, UsageError
from medallion.ingest.listing import Listing
from medallion.inspect.openlineage import send_lineage
from medallion.inspect.personal_columns import require_no_personal_columns
from medallion.model.proven import Proof
from medallion.model.refresh_lock import NAME, read_lock
from medallion.model.registry import Registry
from medallion.model.table import Table
from medallion.ops.event_log import EventLog
from medallion.ops.events import Event
from medallion.ops.lake_tables import TableRecord, disagreement, infer_record, read_record, tables_in, write_record
from medallion.ops.writer_lock import WriterLock, writer_lock
from medallion.pipeline.run import Outcome, Report, Run
from medallion.project import find_project
from medallion.refresh.cost import RecentCosts
from medallion.refresh.strategies import ENGINE_STRATEGIES, Strategies, Strategy
from medallion.settings import Settings
from medallion.spark.configuration import is_local
from medallion.spark.jvm import CpuClock, session_began
from medallion.spark.jvm_usage import Unasked, as_details, jvm_usage
from medallion.spark.own_jvm import end_jvm, has_own_jvm
from medallion.spark.renewal import attached, shortage_of
from medallion.spark.session import cluster_cores
from medallion.spark.sessions import Sessions
from medallion.storage.lake import Lake
from medallion.storage.log_repair import take_repairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOGGER = logging.getLogger(__name__)


class Driver:
    """The state that the steps of one process share: lake, tables, and one Spark session, started on first use.

    project: the project of this process; threads of a step do not look it up again. strategies: the strategies that a
    run may request, by name. report: called with messages. report_wait: called instead with those that say who else
    holds the writer lock, if given.
    """

    def __init__(
        self,
        settings: Settings,
        report: Report = _LOGGER.info,
        strategies: Strategies = ENGINE_STRATEGIES,
    ) -> None:
        self.settings, self.project = settings, find_project()
        for layer in self.project.layers:  # errors in a suite are reported before anything is written
            self.project.suite(layer)
        self._strategies = strategies
        self.lake = Lake.of(settings)
        self._record = read_record(self.lake)
        self.tables: Registry = tables_in(self._record or infer_record(self.lake), settings.extras)
        self.report = report
        self.report_wait: Report | None = None
        if warning := disagreement(settings, self._record):
            report(warning)
        self.cpu = CpuClock()
        self.listing: Listing | None = None  # of the source, while this process is the lake's writer
        self.costs = RecentCosts(self.lake)  # as they were when this process became the lake's writer
        self._lock: WriterLock | None = None
        self._may_renew = True
        self._spent = 0.0  # CPU seconds of this process before the current JVM
        self._short = ""  # the resource that the former JVM was short of
        self._proven: dict[str, tuple[Table, ...]] = {}
        self._proofs: dict[str, Proof] = {}
        self._derived: Registry | None = None  # the tables, once each has a method
        self._problems: Mapping[str, str] = {}
        self._starting = Lock()

    def strategy_of(self, run: Run) -> Strategy:
        """Return the strategy that ``run`` requests. Raises UsageError if there is none of that name."""
        try:
            return self._strategies[run.strategy]
        except KeyError:
            known = ", ".join(self._strategies)
            raise UsageError(f"strategy {run.strategy[:40]!r} is unknown: choose {known}") from None

    @contextmanager
    def writing(self, run: Run, doing: str) -> Iterator[None]:
        """Hold the writer lock of the lake for the block; an inner block takes no second lock.

        Raises UsageError for an unknown strategy, before anything is written; MedallionError, naming the other writer,
        if that still holds the lock after MEDALLION_LOCK_WAIT seconds.
        """
        self.strategy_of(run)
        if self._lock is not None:
            yield
            return
        self.lake.require_writable()
        wait, report = self.settings.lock_wait, self.report_wait or self.report
        with writer_lock(self.lake, run.run_id, run.attempt, doing, wait=wait, report=report) as self._lock:
            try:
                if "_sessions" in vars(self):
                    self.cpu.watch(self._sessions.full, self._lock.watch)
                self.costs = RecentCosts(self.lake)
                self._follow_record()
                yield
            finally:
                self._lock = self.listing = None
                self._log(run).flush()

    def record_tables(self) -> None:
        """Record, while the lake is loaded, that it has the tables that the settings of this process request."""
        former, self._record = self._record, TableRecord(bool(self.settings.extras), project=self.project.name)
        write_record(self.lake, self._record)
        if former not in (None, self._record):  # a failed load may have begun with other settings
            self.tables = tables_in(self._record, self.settings.extras)

    def _follow_record(self) -> None:
        """Use what another process has recorded since; write a record for a lake from before these were kept."""
        record = read_record(self.lake)
        if record is None and (record := infer_record(self.lake)) is not None:
            record = replace(record, project=self.project.name)
            write_record(self.lake, record)
            self._record = record
        if record != self._record:
            self._record = record
            self.tables = tables_in(record, self.settings.extras)

    def require_proven_tables(self, layer: str, run: Run, log: EventLog) -> None:
        """Raise MedallionError for a table of ``layer`` that cannot be refreshed and checked as it is declared.

        Its refresh method could give other rows than its query, an expectation cannot be judged by the changed rows
        that it declares, or it has a personal column although it forbids them.

        This is not checked when the registry is built, which the DAG does at each parse, because reading SQL takes ten
        times as long. It is checked per layer, because in a DAG each layer is refreshed by its own process. Custom
        strategies need no proof of the refresh method.
        """
        problems = self.derive_methods(log) if self.strategy_of(run) in ENGINE_STRATEGIES.values() else {}
        if wrong := [problems[table.name] for table in self.tables.queries(layer) if table.name in problems]:
            raise MedallionError(wrong[0])
        tables = self.tables.queries(layer)
        if self._proven.get(layer) != tables:
            require_no_personal_columns(self.tables, self.project.suite(layer), layer)
            from medallion.checks.scope_proof import require_proven
            from medallion.checks.suites import suites

            if self.strategy_of(run) in ENGINE_STRATEGIES.values():
                from medallion.pipeline.proven import proofs_of

                self._proofs |= proofs_of(tables, self.tables.tables, lambda: self.spark(log), self.locked_proofs())
            require_proven(suites(self.project, layer, self.tables))
            self._proven[layer] = tables

    def derive_methods(self, log: EventLog) -> Mapping[str, str]:
        """Derive the methods of tables that have changed since refresh.lock was written.

        Returns why this is not possible, by table.
        """
        if self.tables is not self._derived:
            from medallion.pipeline.proven import with_derived

            self.tables, self._problems = with_derived(self.tables, lambda: self.spark(log), self.locked_proofs())
            self._derived = self.tables
        return self._problems

    def locked_proofs(self) -> Mapping[str, Proof]:
        """Return the proofs in the project's refresh.lock. Raises MedallionError if that was edited."""
        return read_lock(self.project.root / NAME).proofs

    def proof_of(self, table: Table) -> Proof:
        """Return the proof that the refresh of ``table`` relies on; for a custom strategy it is proven here."""
        if table.name not in self._proofs:
            from medallion.pipeline.proven import proofs_of

            self._proofs |= proofs_of((table,), self.tables.tables, lambda: self._sessions.full, self.locked_proofs())
        return self._proofs[table.name]

    @contextmanager
    def recording(self, run: Run, doing: str) -> Iterator[EventLog]:
        """Hold the writer lock and yield the event log, whose events are stored even if the block fails.

        Only the outermost block commits them to the table, so an hour in one process is one commit.
        """
        with self.writing(run, doing):
            log = self._log(run)
            try:
                yield log
            finally:
                self._note_usage(log)
                self._record_repairs(log)
                send_lineage(self.lake, self.tables, self.settings.source, log.pending, run.lineage_parent)
                log.write_waiting()

    def _record_repairs(self, log: EventLog) -> None:
        """Add an event for each table whose log was repaired when it was opened."""
        names = {str(self.lake.folder(table.name)): table.name for table in self.tables}
        for folder, note in take_repairs():
            self.report(note)
            table = names.get(folder, folder.rpartition("/")[2])
            log.add("maintain", None, table, engine="delta-rs", status="warned", details={"note": note})

    def _log(self, run: Run) -> EventLog:
        return EventLog(self.lake, run_id=run.run_id, hour=run.hour, strategy=run.strategy, attempt=run.attempt)

    @cached_property
    def _sessions(self) -> Sessions:
        spark, short = attached(self.settings)
        self._short = self._short or short
        self.cpu.watch(spark, self._lock.watch if self._lock else None)
        return Sessions(spark)

    def spark(self, log: EventLog) -> "SparkSession":
        """Return the session of this process; its start is an event of ``log``."""
        return self.sessions(log).full

    def sessions(self, log: EventLog) -> Sessions:
        """Return the sessions, shared by all threads; the start of the first is an event of ``log``."""
        with self._starting:
            if "_sessions" in vars(self):
                return self._sessions
            with log.timed("session") as event:
                began = session_began()
                spark = self._sessions.full
                master = spark.conf.get("spark.master") or ""
                event.details = {"spark": spark.version, "master": master}
                if not is_local(master):
                    event.details["cores"] = cluster_cores(spark)
                if self.settings.spark_connect:
                    event.details["attached_to"] = self.settings.spark_connect
                if self._short:
                    event.status = "warned"
                    event.details["note"] = f"the JVM before this one was short of {self._short}"
                    self._short = ""
                event.started_at = datetime.fromtimestamp(began, UTC)
                event.seconds, event.cpu_seconds = time() - began, self.cpu() - self._spent
        return self._sessions

    def use(self, spark: "SparkSession") -> None:
        """Use an existing session, which somebody else has started and will end."""
        self._may_renew = False
        self._sessions = Sessions(spark)
        self.cpu.watch(spark)

    def renew_if_short(self) -> None:
        """Stop using a JVM that is short of a resource; call this between two hours.

        The next step starts another JVM, or attaches to another warm Spark, and the event of that start says why.
        """
        if not self._may_renew or not (short := shortage_of(self.cpu.process)):
            return
        if not self.settings.spark_connect:
            if not has_own_jvm():
                return
            self._short = short
        self.report(f"Spark's JVM is short of {short}: the next hour has another one")
        self.stop()
        end_jvm()
        self._spent = process_time()

    def _note_usage(self, log: EventLog) -> None:
        """Add the usage of the JVM to the event of the step that has just ended."""
        steps = [event for event in log.pending if event.table_name is None]
        if steps and "_sessions" in vars(self) and self.cpu.process is not None:
            with suppress(Unasked):
                steps[-1].details["jvm"] = as_details(jvm_usage(self.cpu.process))

    def report_outcome(self, outcome: Outcome) -> Outcome:
        """Report how a step ended, and return it."""
        self.report(outcome.message)
        return outcome

    def skip(self, run: Run, event: Event, note: str) -> Outcome:
        """Record and report that a step is skipped, and why."""
        event.status, event.details["note"] = "skipped", note
        return self.report_outcome(Outcome("skipped", note, run.hour))

    def stop(self) -> None:
        """End the sessions that were started."""
        if "_sessions" in vars(self):
            self._sessions.stop()
            del self._sessions


@contextmanager
def open_driver(
    settings: Settings, report: Report = _LOGGER.info, strategies: Strategies = ENGINE_STRATEGIES
) -> Iterator[Driver]:
    """Yield a driver; the Spark sessions that its steps start end with the block."""
    driver = Driver(settings, report, strategies)
    try:
        yield driver
    finally:
        driver.stop()
