"""Every kind of fault there is, as a list: what is done to a world, and what is to hold after a plain re-run."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import psutil

from medallion.errors import MedallionError
from medallion.model.refresh_method import RefreshMethod
from medallion.ops import event_log, lease, releases
from medallion.pipeline import operations
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.rollback import rollback
from medallion.storage import fence
from medallion.storage.s3 import S3Path
from tests.faults.few import SHORT_LEASE
from tests.faults.kafka import source_of
from tests.faults.world import HOURS, Effects, Reader, World, dies, differing

H0, H1, H2 = HOURS


@dataclass(frozen=True)
class Fault:
    """One fault of docs/explanation/reliability.md.

    ids: the cases it stands for. since: the hour the world is at before it. until: the hour a plain re-run brings it
    to. strike: does the harm, and returns what it was in words.
    """

    name: str
    ids: str
    since: str | None
    until: str
    strike: Callable[[World], str]


@dataclass(frozen=True)
class Result:
    """What came of a fault: differing tables (none, if all is well), torn reads of a reader, reads, seconds."""

    fault: Fault
    struck: str
    differing: list[str]
    torn: list[str]
    reads: int
    seconds_to_recover: float


def suffer(fault: Fault, world: World) -> Result:
    """Strike, re-run, compare; a reader polls the published release all along."""
    with Reader(world) as reader:
        struck = fault.strike(world)
        start = time.monotonic()
        world.catch_up(fault.until)
        seconds = time.monotonic() - start
    wrong = differing(world, fault.until) + _event_log(world, fault)
    return Result(fault, struck, wrong, reader.torn, reader.reads, seconds)


def _event_log(world: World, fault: Fault) -> list[str]:
    """Of each table and hour that was refreshed on the way, the log has a success, or that nothing was to do."""
    wrong = []
    rows = [
        row
        for row in event_log.read(world.lake, hour=fault.until)
        if row.status in {"succeeded", "warned"} or row.details.get("method") == RefreshMethod.UNCHANGED
    ]
    for table in world.tables:
        step = "apply" if table.layer == "bronze" else "refresh"
        mine = [row for row in rows if (row.event_type, row.table_name) == (step, table.name)]
        if not mine:
            wrong.append(f"no event of {table.name} in {fault.until}")
    if not any(row.event_type == "publish" for row in rows):
        wrong.append(f"no event of the release of {fault.until}")
    return wrong


# --- dying at a durable effect, in this process ----------------------------------------------------------------------


def refresh(hour: str) -> Callable[[World], object]:
    """Refresh one hour."""
    return lambda world: world.refresh(hour, "struck")


def restate(hour: str) -> Callable[[World], object]:
    """Restate from one hour on."""
    return lambda world: operations.restate(world.run(hour, "struck"), world.driver())


def tidy(world: World) -> None:
    """Remove all that may be removed."""
    maintain(world.run(None, "struck"), world.driver(), Retention(hours=0))


def back(world: World) -> None:
    """Roll back to the release before."""
    rollback(world.run(None, "struck"), world.driver(), None)


def deaths(
    what: str, ids: str, work: Callable[[World], object], since: str, until: str, effects: int
) -> Iterator[Fault]:
    """Dying before and after each durable effect of ``work``."""
    for number in range(effects):
        for after in (False, True):

            def strike(world: World, number: int = number, after: bool = after) -> str:
                return dies(lambda: work(world), number, after=after)

            yield Fault(f"{what} dies {'after' if after else 'before'} effect {number}", ids, since, until, strike)


def count_effects(world: World, work: Callable[[World], object]) -> int:
    """How many durable effects ``work`` has on this world, which it changes."""
    with Effects().watched() as effects:
        work(world)
    return len(effects.seen)


def full_disk(number: int) -> Fault:
    """No space is left on the device from the n-th durable effect on; then there is."""

    def strike(world: World) -> str:
        effects = Effects(number, error=OSError(errno.ENOSPC, "No space left on device"))
        with effects.watched(), suppress(MedallionError, OSError):
            world.refresh(H1, "struck")
        return effects.seen[-1]

    return Fault(f"no space from effect {number} on", "F16", H0, H1, strike)


# --- processes, killed ----------------------------------------------------------------------------------------------


FEW = "import sys; from tests.faults.few import main; main()"


def start(
    world: World, hour: str, wait: float = 0, until: str = "", script: str = FEW, **more: str
) -> subprocess.Popen[str]:
    """A refresh in a process of its own, over all tables that the world has; of the hours ``until`` one, if given."""
    environment = os.environ | {
        "MEDALLION_LAKE": world.settings.lake,
        "MEDALLION_SOURCE": world.settings.source,
        "MEDALLION_LOCK_WAIT": str(wait),
        "MEDALLION_DRIVER_MEMORY": "1g",
        "FAULTS_SOURCE": source_of(world.tables),
        **more,
    }
    hours = ("--from-hour", hour, "--to-hour", until) if until else ("--hour", hour)
    command = ("refresh", *hours, "--strategy", world.strategy)
    return subprocess.Popen(
        [sys.executable, "-c", script, *world.tables.tables, "--", *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str], *, jvm: bool) -> None:
    """kill -9 the Python process, and with it the JVM or not."""
    family: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess, ProcessLookupError):  # it may have come to its end first
        family = psutil.Process(process.pid).children(recursive=True) if jvm else []
        os.kill(process.pid, signal.SIGKILL)
    for child in family:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    process.wait()


def killed_at_commit(number: int, *, jvm: bool, landed: bool) -> Fault:
    """kill -9 when the n-th file of a commit log turns up: the draft of a commit, or the commit itself."""

    def strike(world: World) -> str:
        before = set(_commits(world, drafts=not landed))
        process = start(world, H1)
        seen: set[str] = set()
        while process.poll() is None and len(seen) < number:
            seen |= set(_commits(world, drafts=not landed)) - before
            time.sleep(0.002)
        kill(process, jvm=jvm)
        return f"{len(seen)} of {number} commits seen"

    whom = "Python and JVM" if jvm else "Python alone, the JVM goes on"
    what = "commit" if landed else "draft of a commit"
    return Fault(f"kill -9 of {whom} at {what} {number}", "F1 K1 K2 K3 F4", H0, H1, strike)


def killed_after(seconds: float, *, jvm: bool) -> Fault:
    """kill -9 at some moment."""

    def strike(world: World) -> str:
        process = start(world, H1)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        kill(process, jvm=jvm)
        return f"after {seconds:.1f} s"

    whom = "Python and JVM" if jvm else "Python alone, the JVM goes on"
    return Fault(f"kill -9 of {whom} after {seconds:.1f} s", "F1 F4", H0, H1, strike)


def two_at_once(apart: float) -> Fault:
    """Two processes refresh the same hour."""

    def strike(world: World) -> str:
        one = start(world, H1, wait=300)
        time.sleep(apart)
        two = start(world, H1, wait=300)
        codes = [process.wait(timeout=300) for process in (one, two)]
        numbers = [release.release_id for release in releases.read_all(world.lake)]
        if codes != [0, 0] or numbers != sorted(set(numbers)):
            raise AssertionError(f"exit codes {codes}, releases {numbers}: {one.stdout and one.stdout.read()}")
        return f"exit codes {codes}"

    return Fault(f"two refreshes of an hour, {apart:.1f} s apart", "F3", H0, H1, strike)


def _commits(world: World, *, drafts: bool) -> list[str]:
    if isinstance(root := world.lake.at(world.settings.lake), S3Path):  # a commit is one request there: it has no draft
        return [str(file) for file in root.rglob("[0-9]*.json") if file.parent.name == "_delta_log"]
    pattern = ".*.json.*.tmp" if drafts else "[0-9]*.json"
    return [str(file) for file in root.glob(f"*/*/_delta_log/{pattern}")]


def frozen_machine(commits: int, *, late: bool) -> Fault:
    """Another machine freezes in the middle of an hour, this one takes over, and the other one thaws: while this one
    writes, or when it has published."""

    def strike(world: World) -> str:
        other = start(world, H1, FAULTS_MACHINE=str(world.root / "other machine"))
        before, seen = set(_commits(world, drafts=False)), set[str]()
        while other.poll() is None and len(seen) < commits:
            seen |= set(_commits(world, drafts=False)) - before
            time.sleep(0.01)
        family = list[psutil.Process]()
        with suppress(psutil.NoSuchProcess):  # it may have come to its end first
            family = [psutil.Process(other.pid), *psutil.Process(other.pid).children(recursive=True)]
            for process in family:
                process.suspend()
        try:
            with patch.multiple(lease, TTL_SECONDS=SHORT_LEASE[0], SAFETY_SECONDS=SHORT_LEASE[1]):
                while not _takes_over(world, thaw=() if late else family):
                    time.sleep(0.5)
        finally:
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.resume()
        output, _ = other.communicate(timeout=300)
        fences = [release.fence for release in releases.read_all(world.lake)]
        if fences != sorted(fences, key=lambda number: number or 0):
            raise AssertionError(f"releases under leases {fences}: {output}")
        return f"{len(seen)} of {commits} commits seen, the other one's exit code {other.returncode}"

    when = "after the release" if late else "while this one writes"
    return Fault(f"another machine freezes at commit {commits}, thaws {when}", "F36", H0, H2, strike)


def _takes_over(world: World, thaw: Sequence[psutil.Process]) -> bool:
    """Refresh the hour here, unless the frozen machine has its lease still; ``thaw`` once this machine has it."""
    require = fence.require
    frozen = list(thaw)

    def thawing() -> None:
        while frozen:
            with suppress(psutil.NoSuchProcess):
                frozen.pop().resume()
        require()

    with patch.object(fence, "require", thawing):
        try:
            world.refresh(H1, "taken over")
        except MedallionError as refused:
            if "another writer" in str(refused):
                return False
            raise
    return True


# --- files as sources should not deliver them ------------------------------------------------------------------------


def delivered(name: str, ids: str, spoil: Callable[[bytes], bytes]) -> Fault:
    """A change file arrives spoiled, and is refused or applied in part; then as it should, and the hour is restated."""

    def strike(world: World) -> str:
        path = world.change_file("orders", H1)
        right = path.read_bytes()
        path.write_bytes(spoil(right))
        try:
            outcome = world.refresh(H1, "struck").status
        except MedallionError as refused:
            outcome = f"refused: {refused}"
        path.write_bytes(right)
        if not outcome.startswith("refused"):  # what fits was applied: a restatement takes in the rest
            world.in_part.append(world.published()[1])
            operations.restate(world.run(H1, "restate"), world.driver())
        return outcome[:100]

    return Fault(name, ids, H0, H1, strike)


def out_of_order(hour: str) -> Fault:
    """An hour with earlier ones missing, or one that was applied already."""

    def strike(world: World) -> str:
        before = {table.name: world.lake.version(table.name) for table in world.tables}
        try:
            outcome = world.refresh(hour, "struck").status
        except MedallionError as refused:
            outcome = f"refused: {refused}"
        if {table.name: world.lake.version(table.name) for table in world.tables} != before:
            raise AssertionError(f"hour {hour} out of order was written: {outcome}")
        return outcome[:100]

    return Fault(f"hour {hour} comes out of order", "F2 F5", H0, H1, strike)


def other_zone(zone: str) -> Fault:
    """An hour is refreshed on a machine in another time zone."""

    def strike(world: World) -> str:
        return f"exit code {start(world, H1, TZ=zone).wait(timeout=300)}"

    return Fault(f"the machine is in {zone}", "F12", H0, H1, strike)


def broken_check() -> Fault:
    """Great Expectations breaks down while Silver is checked."""

    def strike(world: World) -> str:
        with (
            patch("medallion.checks.checkpoint.run_checkpoint", side_effect=RuntimeError("broken")),
            suppress(RuntimeError),
        ):
            world.refresh(H1, "struck")
        return f"{world.published()[0]} is published"

    return Fault("a check breaks down", "F19", H0, H1, strike)


def no_event_log(name: str, spoil: Callable[[Path], object]) -> Fault:
    """The event log can be neither written nor, perhaps, read while an hour is refreshed; then it is as it was."""

    def strike(world: World) -> str:
        path = Path(world.lake.event_log)
        aside = path.rename(path.with_name("aside"))
        spoil(path)
        world.refresh(H1, "struck")
        world.refresh(H1, "again")
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        aside.rename(path)
        world.refresh(H2, "next")
        waiting = list(path.parent.glob("*.waiting"))
        return f"{len(waiting)} rows still wait"

    return Fault(f"the event log {name}", "F23", H0, H2, strike)


def _damaged_log(path: Path) -> None:
    log = path / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("{")


def every_fault(worlds: Callable[[str | None], World], seed: int) -> list[Fault]:
    """All of them, random ones by ``seed``. worlds: gives a world to count in, as it was after an hour.

    In a bucket those are left out that spoil files of a disk.
    """
    chance, bucket = random.Random(seed), worlds(None).bucket
    refreshed = count_effects(worlds(H0), refresh(H1))
    restated = count_effects(worlds(H2), restate(H2))
    tidied = count_effects(worlds(H2), tidy)
    rolled = count_effects(worlds(H1), back)
    spoiled: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
        "cut off in the middle of a line": ("F7", lambda right: right[:-20]),
        "cut off in the middle of a character": ("F7", lambda right: right[: len(right) // 2] + b'"\xc3'),
        "empty": ("F6", lambda right: b""),
        "blank lines alone": ("F6", lambda right: b"\n \n\n"),
        "with a byte order mark": ("F8", lambda right: b"\xef\xbb\xbf" + right),
        "with every line twice": ("F9", lambda right: right + right),
        "full of what is no JSON": ("F8", lambda right: b"NaN\n{]\n\0\n" * 100 + right),
        "with one line that is no JSON": ("F8", lambda right: right + b"{]\n"),
        "with a line of 20 MB": ("F8", lambda right: right + b'{"insert": "' + b"x" * 20_000_000 + b'"}\n'),
        "with neither insert nor delete": ("F8", lambda right: right + b'{"upsert": {}}\n'),
        "with a new column": ("F11", lambda right: right.replace(b'"order_id"', b'"colour": "red", "order_id"', 1)),
        "with a delete of a row that is not there": ("F9", lambda right: right + b'{"delete": {"order_id": -1}}\n'),
    }
    return [
        *deaths("refresh", "F1 K0 K1 K3 K4 K5 K6 K7 K8 K9", refresh(H1), H0, H1, refreshed),
        *deaths("restatement", "F1 K3", restate(H2), H2, H2, restated),
        *deaths("maintenance", "F1 K10 K11", tidy, H2, H2, tidied),
        *deaths("roll back", "F1 K12", back, H1, H1, rolled),
        *(full_disk(number) for number in range(0, refreshed, 4)),
        *(
            killed_at_commit(n, jvm=jvm, landed=landed)
            for n in (1, 4, 9, 12)
            for jvm in (True, False)
            for landed in ((True,) if bucket else (True, False))
        ),
        *(killed_after(chance.uniform(6, 30), jvm=chance.random() < 0.5) for _ in range(8)),
        *(two_at_once(chance.uniform(0, 10)) for _ in range(2)),
        *(delivered(f"a file {name}", ids, spoil) for name, (ids, spoil) in spoiled.items()),
        *(out_of_order(hour) for hour in (H0, H2, "2025-11-29T00", "2026-01-01T00")),
        *([] if bucket else [no_event_log("cannot be written", lambda path: path.write_text("no folder"))]),
        *([] if bucket else [no_event_log("is damaged", _damaged_log)]),
        *(other_zone(zone) for zone in ("America/New_York", "Asia/Kathmandu")),
        broken_check(),
        *(frozen_machine(commits, late=late) for commits in (1, 8, 14) for late in (True, False)),
    ]
