"""The steps of an hourly refresh, each idempotent and each its own rows in the event log.

A DAG task runs one step in a process of its own; ``medallion refresh`` runs all of them in one Spark session.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from threading import Lock
from time import time
from typing import TYPE_CHECKING, Any

from medallion.errors import CheckFailed, MedallionError, UsageError
from medallion.hours import hour_or_snapshot, parse_hour
from medallion.ingest import apply, change_log, landing, ledger, quarantine, snapshot
from medallion.ingest.source import Advance, change_files, open_source, silent
from medallion.inspect.validate import problems, validate
from medallion.model.registry import Registry, registry
from medallion.model.table import STRATEGIES, Feed, Layer, Log, Table
from medallion.ops import event_log, releases
from medallion.ops.event_log import Event, EventLog
from medallion.ops.writer_lock import WriterLock, writer_lock
from medallion.refresh.full import Written, refresh_full, side_by_side
from medallion.refresh.incremental import refresh_incremental
from medallion.settings import Settings
from medallion.spark.session import CpuClock, cluster_cores, in_parallel, is_local, session_began, spark_session
from medallion.storage.lake import Lake, origin_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Report = Callable[[str], None]
Refresh = Callable[..., Written]  # of (spark, lake, table, *, hour, run_id)

REFRESH: dict[str, Refresh] = {"full": refresh_full, "incremental": refresh_incremental}  # the benchmark adds others
assert tuple(REFRESH) == STRATEGIES, "a strategy of the DAG is missing"


@dataclass(frozen=True)
class Run:
    """One refresh of one hour. hour: None for the next in line. attempt counts from 1."""

    settings: Settings
    hour: str | None
    run_id: str
    attempt: int = 1
    strategy: str = "full"

    def __post_init__(self) -> None:
        if self.hour is not None:
            parse_hour(self.hour)
        if self.strategy not in REFRESH:
            raise UsageError(f"strategy {self.strategy[:40]!r} is unknown: choose {', '.join(REFRESH)}")

    @property
    def required_hour(self) -> str:
        """The hour, for steps that cannot choose one. Raises UsageError when there is none."""
        if self.hour is None:
            raise UsageError("this step needs --hour, as YYYY-MM-DDTHH")
        return self.hour


@dataclass(frozen=True)
class Outcome:
    """How a step ended: ``succeeded``, ``skipped`` (nothing left to do) or ``warned``, for which hour, and a note."""

    status: str
    message: str
    hour: str | None


class Driver:
    """What the steps of one process share: the lake, the tables, one Spark session, started when first needed."""

    def __init__(self, settings: Settings, report: Report = print) -> None:
        self.settings = settings
        self.lake = Lake(settings.lake)
        self.tables: Registry = registry()
        self.report = report
        self.cpu = CpuClock()
        self._lock: WriterLock | None = None
        self._starting = Lock()

    @contextmanager
    def writing(self, run: "Run", doing: str) -> Iterator[None]:
        """Be the lake's one writer for the length of the block; inside such a block, do nothing more.

        Raises MedallionError, naming the other writer, when it is still at work after MEDALLION_LOCK_WAIT seconds.
        """
        if self._lock is not None:
            yield
            return
        self.lake.require_writable()
        wait = self.settings.lock_wait
        with writer_lock(self.lake, run.run_id, run.attempt, doing, wait=wait, report=self.report) as self._lock:
            try:
                if "_session" in vars(self):
                    self.cpu.watch(self._session, self._lock.watch)
                yield
            finally:
                self._lock = None
                self._log(run).flush()

    @contextmanager
    def recording(self, run: "Run", doing: str) -> Iterator[EventLog]:
        """As ``writing``; yields the event log of the block, which is kept however the block ends.

        The outermost block has it in the table when it ends: an hour in one process is one commit.
        """
        with self.writing(run, doing):
            log = self._log(run)
            try:
                yield log
            finally:
                log.keep()

    def _log(self, run: "Run") -> EventLog:
        return EventLog(self.lake, run_id=run.run_id, hour=run.hour, strategy=run.strategy, attempt=run.attempt)

    @cached_property
    def _session(self) -> "SparkSession":
        spark = spark_session(self.settings)
        self.cpu.watch(spark, self._lock.watch if self._lock else None)
        return spark

    def spark(self, log: EventLog) -> "SparkSession":
        """The session, one for all threads; starting it is an event of ``log``."""
        with self._starting:
            if "_session" in vars(self):
                return self._session
            with log.timed("session") as event:
                began = session_began()
                spark = self._session
                master = spark.conf.get("spark.master") or ""
                event.details = {"spark": spark.version, "master": master}
                if not is_local(master):
                    event.details["cores"] = cluster_cores(spark)
                if self.settings.spark_connect:
                    event.details["attached_to"] = self.settings.spark_connect
                event.started_at = datetime.fromtimestamp(began, UTC)
                event.seconds, event.cpu_seconds = time() - began, self.cpu()
        return spark

    def use(self, spark: "SparkSession") -> None:
        """Work in a session that is there already."""
        self._session = spark
        self.cpu.watch(spark)

    def stop(self) -> None:
        """End the session if it was started."""
        if "_session" in vars(self):
            self._session.stop()
            del self._session


def run_step(name: str, run: Run, layer: Layer | None = None, driver: Driver | None = None) -> Outcome:
    """Run one step and append its events to the event log, also when it fails.

    name: land, apply, refresh, check, publish or validate; layer: for refresh any but bronze, for check any.
    Raises UsageError for an unknown step or layer, HourNotAvailable when the source does not have the hour,
    CheckFailed when a critical expectation does not hold, MedallionError for the rest.
    """
    work, lowest = _STEPS.get(name, (None, None))
    if work is None:
        raise UsageError(f"step {name[:40]!r} is unknown: choose {', '.join(_STEPS)}")
    driver = driver or Driver(run.settings)
    if lowest is not None and layer not in (layers := driver.tables.layers[lowest:]):
        raise UsageError(f"step {name} needs --layer, one of {', '.join(layers)}")
    with driver.recording(run, f"{name} {layer or ''}".strip()) as log:
        return work(driver, run, log, layer)


def refresh_hour(run: Run, driver: Driver) -> Outcome:
    """One hour, landed to published, in this process: what one DAG run does.

    Errors as for run_step. An hour that is published already is skipped.
    """
    with driver.writing(run, "refresh"):
        landed = run_step("land", run, driver=driver)
        if landed.status == "skipped":
            return landed
        run = replace(run, hour=landed.hour)
        run_step("apply", run, driver=driver)
        return _onward(run, driver)


def _onward(run: Run, driver: Driver) -> Outcome:
    """From Bronze that is at ``run.hour`` to its release."""
    warned = False
    for layer in driver.tables.layers:
        if layer != "bronze":
            run_step("refresh", run, layer, driver)
        warned |= run_step("check", run, layer, driver).status == "warned"
    outcome = run_step("publish", run, driver=driver)
    run_step("validate", run, driver=driver)
    return replace(outcome, status="warned") if warned else outcome


def load(run: Run, driver: Driver, advance: Advance = silent) -> Outcome:
    """The snapshot into Bronze, the first full Silver and Gold, and the first release.

    advance: told how far the copy of the snapshot is, where the source is not a folder.

    Raises UsageError when the lake has been loaded already, MedallionError when the snapshot cannot be used.
    """
    lake = driver.lake
    with driver.writing(run, "load"):
        if releases.latest(lake) is not None:
            raise UsageError(f"lake {lake.root} is loaded already: refresh it, or remove the folder to start over")
        with driver.recording(run, "load") as log:
            _load_bronze(driver, run, log, advance)
        return _onward(run, driver)


def _load_bronze(driver: Driver, run: Run, log: EventLog, advance: Advance) -> None:
    lake, source = driver.lake, open_source(run.settings)
    snapshots = {feed.name: snapshot.snapshot_folder(source, feed, lake, advance) for feed in driver.tables.feeds}
    spark = driver.spark(log)
    with log.timed("apply", "bronze", cpu=driver.cpu) as event:

        def loaded(name: str, write: Callable[[], None]) -> int:
            with log.timed("apply", "bronze", name, cpu=driver.cpu) as one:
                write()
                if state := lake.state(name):
                    one.rows_in = one.rows_out = state.rows
                    one.bytes_out = state.bytes
            driver.report(f"bronze  {name}  {one.rows_out:,} rows  {one.seconds:.1f} s")
            return one.rows_out or 0

        event.rows_out = sum(
            loaded(feed.name, partial(snapshot.load_feed, spark, lake, feed, snapshots[feed.name]))
            for feed in driver.tables.feeds
        )
        for table in driver.tables.logs:
            loaded(table.name, partial(change_log.begin_log, lake, table, str(snapshots[table.of])))


def rollback(run: Run, driver: Driver, number: int | None) -> Outcome:
    """Publish the versions of an earlier release once more: of release ``number``, else of the one before the newest.

    Raises UsageError when there is no such release, MedallionError when files of it are gone.
    """
    lake = driver.lake
    with driver.recording(run, "rollback") as log, log.timed("publish", cpu=driver.cpu) as event:
        newest = releases.find(lake, None)
        target = releases.find(lake, newest.release_id - 1 if number is None else number)
        if target.release_id == newest.release_id:
            raise UsageError(f"release {target.release_id} is the newest already: nothing to roll back")
        if gone := [table for table, version in target.versions.items() if not lake.is_whole(table, version)]:
            raise MedallionError(f"release {target.release_id} cannot come back: files of {', '.join(gone)} are gone")
        log.hour = target.hour
        done = releases.publish(
            lake,
            after=newest,
            hour=target.hour,
            run_id=run.run_id,
            strategy=target.strategy,
            versions=target.versions,
        )
        event.details = {"release_id": done.release_id, "rolled_back_to": target.release_id}
    message = f"release {done.release_id} is release {target.release_id} again, of {hour_or_snapshot(target.hour)}"
    return _told(driver, Outcome("succeeded", message, target.hour))


def replay(run: Run, driver: Driver, topic: str, lines: Mapping[int, str] | None) -> Outcome:
    """Apply lines in quarantine in their old place, mended or because the schema was: restates their hour.

    Raises UsageError, and changes nothing, when there is nothing to replay.
    """
    with driver.writing(run, "replay"):
        feed = quarantine.feed_of(driver.tables.feeds, topic)
        fitting = quarantine.mend(driver.lake, feed, run.required_hour, lines)
        driver.report(f"{fitting:,} lines of {topic} in {run.hour} fit now")
        return restate(run, driver)


def restate(run: Run, driver: Driver) -> Outcome:
    """Take Bronze back to before ``run.hour`` and forward again from the source as it is now; publish the last hour.

    Hours that the source no longer lists are applied as they landed. A restatement that was cut short goes on with
    the next refresh, and nothing is published before it has caught up.
    Raises UsageError for an hour after the last applied one, MedallionError when Bronze of before is no longer kept.
    """
    lake, hour = driver.lake, run.required_hour
    with driver.writing(run, "restate"):
        applied = ledger.applied_hour(lake, driver.tables)
        former = ledger.read_restatement(lake)
        until = max(applied or "", former.until if former else "")
        if hour > until:
            raise UsageError(f"hour {hour} is after {until or 'the snapshot'}, the last one: run medallion refresh")
        for feed in driver.tables.feeds:
            lake.version_before(feed.name, hour)  # all of them or none
        ledger.write_restatement(lake, ledger.Restatement(hour, until))
        before = releases.latest(lake)
        while True:
            landed = run_step("land", replace(run, hour=None), driver=driver)
            run_step("apply", replace(run, hour=landed.hour), driver=driver)
            if str(landed.hour) >= until:
                break
        outcome = _onward(replace(run, hour=until), driver)
    after = releases.latest(lake)
    if before is not None and after is not None:
        from medallion.inspect.query import diff

        for table in filter(None, diff(lake, before, after, driver.tables)):
            driver.report(f"{table.table}: {table.added:,} added, {table.removed:,} removed, {table.changed:,} changed")
        driver.report(f"row by row: medallion release diff {before.release_id} {after.release_id} --table NAME")
    return outcome


def _land(driver: Driver, run: Run, log: EventLog, _: Layer | None) -> Outcome:
    lake, notes = driver.lake, []
    with log.timed("land", "bronze", cpu=driver.cpu) as event:
        source = open_source(run.settings)
        restated = _rewound(driver)
        files = change_files(source, tuple(feed.topic for feed in driver.tables.feeds))
        applied = ledger.applied_hour(lake, driver.tables)
        landed = ledger.landed_hours(lake)
        log.hour = hour = ledger.in_line(run.hour, applied, files, landed)
        if applied is not None and hour <= applied:
            event.status = "skipped"
            release = releases.latest(lake)
            if hour < applied or (release and release.hour == hour and restated is None):
                published = release is not None and release.hour is not None and release.hour >= hour
                note = f"hour {hour} is {'published' if published else 'in Bronze'} already: nothing to do"
                if changed := landing.changed_files(source, files.get(hour, {}), ledger.read_manifest(lake, hour)):
                    note += f"; its files have changed since ({', '.join(changed)}): medallion refresh --restate {hour}"
                event.details["note"] = note
                if release is not None:
                    _recover_publish_row(lake, log, release)
                return _told(driver, Outcome("skipped", note, hour))
            event.details["note"] = note = f"hour {hour} is in Bronze already, but not published: going on from there"
            return _told(driver, Outcome("succeeded", note, hour))
        if hour in files:
            manifest = landing.land_hour(source, lake, hour, files[hour])
        else:
            manifest = ledger.known_manifest(lake, hour)
            notes.append(f"the source no longer lists {hour}: it is applied as it landed")
        event.bytes_out = sum(file.bytes for file in manifest.files.values())
        event.details["files"] = {topic: vars(file) for topic, file in manifest.files.items()}
        if twin := ledger.same_content(lake, manifest, applied):
            notes.append(f"the same content came under {twin} already: see whether the source delivered it twice")
        if notes:
            event.status, event.details["note"] = "warned", "; ".join(notes)
    size = event.bytes_out / 1e6
    message = "; ".join([f"landed {len(manifest.files)} files, {size:.1f} MB of {hour}", *notes])
    return _told(driver, Outcome(event.status, message, hour))


def _recover_publish_row(lake: Lake, log: EventLog, release: releases.Release) -> None:
    """Add the event of a release whose process ended between the two."""
    rows = event_log.read_if_whole(lake, run_id=release.run_id, event_type="publish")
    if rows is None or any(row["status"] == "succeeded" for row in rows):
        return
    details = {"release_id": release.release_id, "versions": dict(release.versions), "note": _RECOVERED}
    mine = {"run_id": release.run_id, "hour": release.hour, "started_at": release.published_at}
    log.add("publish", None, None, **mine, details=details)


_RECOVERED = "the run ended before it could write this row: it is made from the commit"


def _rewound(driver: Driver) -> ledger.Restatement | None:
    """The restatement under way, if there is one, with every Bronze table taken back."""
    restatement = ledger.read_restatement(driver.lake)
    if restatement is not None and not restatement.rewound:
        for feed in driver.tables.feeds:
            if (driver.lake.applied_hour(feed.name) or "") >= restatement.hour:
                driver.lake.rewind(feed.name, restatement.hour)
        for log in driver.tables.logs:
            _rewind_log(driver.lake, log, restatement.hour)
        driver.report(f"Bronze is as it was before {restatement.hour}")
        restatement = replace(restatement, rewound=True)
        ledger.write_restatement(driver.lake, restatement)
    return restatement


def _rewind_log(lake: Lake, log: Log, hour: str) -> None:
    """Take a log back to before ``hour``; one that is younger begins anew, with its table as it is."""
    if (lake.applied_hour(log.name) or "") < hour:
        return
    try:
        lake.rewind(log.name, hour)
    except MedallionError:
        change_log.begin_log(lake, log)


def _apply(driver: Driver, run: Run, log: EventLog, _: Layer | None) -> Outcome:
    hour, feeds = run.required_hour, driver.tables.feeds
    with log.timed("apply", "bronze", cpu=driver.cpu) as event:
        decoded = landing.decode_hour(driver.lake, feeds, hour, run.settings.max_bad_lines)
        for feed in feeds:
            if feed.name in decoded:
                quarantine.keep(driver.lake, feed, hour, run.run_id, decoded[feed.name])

        rows = event_log.read_if_whole(driver.lake, hour=hour, event_type="apply")
        reported = {row["table_name"] for row in rows or [] if row["status"] in {"succeeded", "warned"}}

        for table in driver.tables.logs:  # before their tables go on
            change_log.catch_up(partial(driver.spark, log), driver.lake, table, hour, run.settings.max_bad_lines)

        def work(table: Feed | Log) -> apply.Applied | None:
            spark, found = partial(driver.spark, log), decoded.get(table.of if isinstance(table, Log) else table.name)
            with log.timed("apply", "bronze", table.name) as one:
                if isinstance(table, Log):
                    done = change_log.append_lines(driver.lake, table, hour, found)
                else:
                    done = apply.apply_feed(spark, driver.lake, table, hour, found)
                if done is None and rows is not None and table.name not in reported:
                    done = apply.applied_before(driver.lake, table, found)
                    one.details["note"] = _RECOVERED
                _fill_applied(one, done)
            if done is not None:
                changed = f"{done.lines:,} lines, {done.changed:,} rows changed"
                driver.report(f"bronze  {table.name}  {changed}  {one.seconds:.1f} s")
            return done

        with in_parallel() as pool:
            logged = pool.map(work, driver.tables.logs)
            results = [done for done in pool.map(work, feeds) if done is not None]
            list(logged)  # so that a failure is raised
        landing.forget_decoded(driver.lake, hour)
        event.rows_in = sum(done.lines for done in results)
        event.rows_out = sum(done.changed for done in results)
        event.bytes_out = sum(done.bytes for done in results)
        rejected = sum(done.rejected for done in results)
        event.details["rejected"] = rejected
        if not results:
            event.status = "skipped"
        drift = landing.drift(feeds, decoded)
        if rejected:
            drift.append(f"{rejected} bad lines are kept back: medallion quarantine list")
        if drift:
            event.status, event.details["note"] = "warned", "; ".join(drift)
    message = "; ".join([f"applied {event.rows_in:,} lines of {hour}, {event.rows_out:,} rows changed", *drift])
    return _told(driver, Outcome(event.status, message, hour))


def _refresh(driver: Driver, run: Run, log: EventLog, layer: Layer | None) -> Outcome:
    assert layer is not None, "run_step asks for it"
    _require_bronze_at(driver, run.hour)
    spark = driver.spark(log)
    tables = driver.tables.queries(layer)
    with log.timed("refresh", layer, cpu=driver.cpu) as event:
        event.rows_in = event.rows_out = event.bytes_out = 0

        def work(table: Table) -> None:
            with log.timed("refresh", layer, table.name) as one:
                written = REFRESH[run.strategy](spark, driver.lake, table, hour=run.hour, run_id=run.run_id)
                one.rows_in, one.rows_out, one.bytes_out = written.rows_in, written.rows_out, written.bytes_out
                one.strategy = written.strategy
                one.details = {"version": written.version, "inputs": dict(written.inputs), "how": written.how}
                if written.changed is not None:
                    one.details["changed"] = written.changed
                if written.note:
                    one.details["note"] = written.note
                if written.how == "unchanged":
                    one.status = "skipped"
                if written.warning:
                    one.status, one.details["note"] = "warned", written.warning
                    driver.report(f"{table.name}: {written.warning}")
            event.rows_in = (event.rows_in or 0) + written.rows_in
            event.rows_out = (event.rows_out or 0) + written.rows_out
            event.bytes_out = (event.bytes_out or 0) + written.bytes_out
            driver.report(f"{layer}  {table.name}  {written.rows_out:,} rows  {one.seconds:.1f} s  {written.how}")

        side_by_side(tables, work)
    return Outcome("succeeded", f"refreshed {len(tables)} {layer} tables", run.hour)


def _check(driver: Driver, run: Run, log: EventLog, layer: Layer | None) -> Outcome:
    from medallion.checks.checkpoint import run_checkpoint
    from medallion.checks.suites import suites
    from medallion.storage.duckdb_views import TableAt

    lake = driver.lake
    with log.timed("check", layer, cpu=driver.cpu) as event:
        event.engine = "duckdb"
        found = run_checkpoint(
            str(layer),
            {table.name: TableAt(lake.path(table.name)) for table in driver.tables},
            suites=suites(str(layer), driver.tables),
            hour=run.hour or "snapshot",
            run_id=run.run_id,
            attempt=run.attempt,
            reports=lake.reports,
        )
        report = lake.reports / found.page
        for line in found.details():
            driver.report(line)
        for table in found.tables:
            log.add(
                "check",
                layer,
                table.table,
                engine="duckdb",
                status=table.status,
                seconds=table.seconds,
                started_at=found.started_at,
                rows_in=table.rows,
                details={"version": table.version, "expectations": table.counts()},
            )
        event.status = found.status
        event.rows_in = sum(table.rows or 0 for table in found.tables)
        event.details = {"note": found.summary(), "report": str(report), "startup_seconds": found.startup_seconds}
        if found.status == "failed":
            raise CheckFailed(f"{found.summary()}; nothing after it was refreshed or published; see {report}")
    return _told(driver, Outcome(found.status, found.summary(), run.hour))


def _publish(driver: Driver, run: Run, log: EventLog, _: Layer | None) -> Outcome:
    with log.timed("publish", cpu=driver.cpu) as event:
        last = releases.latest(driver.lake)
        restated = ledger.read_restatement(driver.lake)
        if restated is not None and (run.hour or "") < restated.until:
            event.status = "skipped"
            event.details["note"] = note = (
                f"hours are restated up to {restated.until}: nothing is published before that"
            )
            return _told(driver, Outcome("skipped", note, run.hour))
        _require_bronze_at(driver, run.hour)
        versions = _audited_versions(driver)
        if last is not None and last.hour == run.hour and dict(last.versions) == versions:
            ledger.end_restatement(driver.lake)
            event.status, event.details["note"] = "skipped", f"release {last.release_id} names these versions already"
            return _told(driver, Outcome("skipped", event.details["note"], run.hour))
        release = releases.publish(
            driver.lake, after=last, hour=run.hour, run_id=run.run_id, strategy=run.strategy, versions=versions
        )
        event.details = {"release_id": release.release_id, "versions": versions}
        ledger.end_restatement(driver.lake)
    message = f"published {hour_or_snapshot(run.hour)} as release {release.release_id}"
    return _told(driver, Outcome("succeeded", message, run.hour))


def _validate(driver: Driver, run: Run, log: EventLog, _: Layer | None) -> Outcome:
    lake = driver.lake
    with log.timed("validate", cpu=driver.cpu) as event:
        if restated := ledger.read_restatement(lake):
            event.status = "skipped"
            event.details["note"] = note = (
                f"hours are restated up to {restated.until}: there is nothing to validate yet"
            )
            return _told(driver, Outcome("skipped", note, run.hour))
        release = releases.find(lake, None)
        found = validate(lake, driver.tables, release, run.hour)
        event.details = {"release_id": release.release_id, "tables": found}
        event.rows_in = sum(told["rows"] or 0 for told in found.values())
        if wrong := problems(found):
            raise CheckFailed(f"release {release.release_id} of {hour_or_snapshot(release.hour)}: {'; '.join(wrong)}")
    return _told(
        driver, Outcome("succeeded", f"all {len(found)} tables are there, as of {hour_or_snapshot(run.hour)}", run.hour)
    )


def _require_bronze_at(driver: Driver, hour: str | None) -> None:
    """Nothing may be computed or published as of ``hour`` once another run has taken Bronze further."""
    applied = ledger.applied_hour(driver.lake, driver.tables)
    if applied != hour:
        raise MedallionError(
            f"Bronze is at {hour_or_snapshot(applied)}, not at {hour_or_snapshot(hour)}: another run went on, or that"
            " was not applied; run medallion refresh to go on from there"
        )


def _audited_versions(driver: Driver) -> dict[str, int]:
    """The current version of every table, each known to have been computed from those of its inputs."""
    versions: dict[str, int] = {}
    for table in driver.tables:  # in dependency order
        delta = driver.lake.open(driver.lake.path(table.name))
        if delta is None:
            raise MedallionError(f"{table.name} has not been written: nothing is published; refresh its layer")
        versions[table.name] = delta.version()
        if isinstance(table, Table):
            consumed = origin_of(delta).get("inputs", {})
            for name in table.inputs:
                if not driver.lake.same_rows(name, consumed.get(name), versions[name]):
                    raise MedallionError(
                        f"{table.name} was computed from version {consumed.get(name)} of {name}, which is at"
                        f" {versions[name]} now: nothing is published; refresh the {table.layer} layer"
                    )
    return versions


_Work = Callable[[Driver, Run, EventLog, Layer | None], Outcome]
_STEPS: dict[str, tuple[_Work, int | None]] = {  # and the lowest layer that it is for, of a step of one layer
    "land": (_land, None),
    "apply": (_apply, None),
    "refresh": (_refresh, 1),
    "check": (_check, 0),
    "publish": (_publish, None),
    "validate": (_validate, None),
}


def _told(driver: Driver, outcome: Outcome) -> Outcome:
    driver.report(outcome.message)
    return outcome


def _fill_applied(event: Event, done: apply.Applied | None) -> None:
    if done is None:
        event.status, event.details["note"] = "skipped", "the table has this hour already"
        return
    event.rows_in, event.rows_out, event.bytes_out = done.lines, done.changed, done.bytes
    counts: dict[str, Any] = {"inserted": done.inserted, "updated": done.updated, "deleted": done.deleted}
    event.details |= counts | {"rejected": done.rejected}
    if done.rejected:
        event.status = "warned"
