"""A small shop with a few hours of changes, what an undisturbed refresh makes of them, and ways to disturb one."""

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

from demo.generate import generate
from medallion.hours import hour_range
from medallion.ingest.restatement import read_restatement
from medallion.inspect.query import open_release
from medallion.model.registry import Registry
from medallion.ops import releases
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run
from medallion.refresh import additive
from medallion.settings import Settings
from medallion.storage.lake import Lake
from medallion.storage.s3 import S3Path
from tests.faults.kafka import deliver

HOURS = list(hour_range("2025-11-30T00", "2025-11-30T02"))
Rows = dict[str, tuple[int, int]]  # by table: how many rows, and a hash of all of them that no order changes
Expected = dict[str | None, Rows]  # by hour, None for the snapshot
Ahead = dict[str | None, Path]


@contextmanager
def state_of_small_inputs() -> Iterator[None]:
    """Have a small shop refreshed as a large one is, with aggregate state."""
    with patch.object(additive, "MIN_STATE_INPUT_BYTES", 0):
        yield


class Killed(BaseException):
    """Stands for the end of the process: no handler of an Exception sees it, and nothing durable happens after it."""


@dataclass
class World:
    """A source, a lake loaded from it, and the rows of every hour as an undisturbed run published them.

    ahead: where another such world is, as it was after that hour. in_part: what was published of spoiled files.
    strategy: how the world refreshes; what is expected was always made in full. bucket: where the lake is, if not on
    this disk; the source is always. merge_on_read: the setting of that name.
    """

    root: Path
    spark: Any
    tables: Registry
    expected: Expected = field(default_factory=dict)
    ahead: Ahead = field(default_factory=dict)
    in_part: list[Rows] = field(default_factory=list)
    strategy: str = "full"
    bucket: str = ""
    merge_on_read: str = "8m"

    @property
    def settings(self) -> Settings:
        """Where they are; nobody waits for a lock, and in files of forty lines one may be bad."""
        lake = f"{self.bucket}/{self.root.name}" if self.bucket else str(self.root / "lake")
        source = str(self.root / "source")
        ways = Settings.from_environment() if self.bucket else Settings()  # how the bucket is reached
        ways = ways.replace(merge_on_read=self.merge_on_read)
        return ways.replace(lake=lake, source=source, lock_wait=0, max_bad_lines=0.1)

    @property
    def lake(self) -> Lake:
        """The lake."""
        return Lake.of(self.settings)

    def change_file(self, topic: str, hour: str) -> Path:
        """The change file of a feed and hour at the source."""
        return self.root / "source" / "cdc" / topic / f"{hour}.json"

    def change_files(self, hour: str) -> list[Path]:
        """All change files of an hour at the source."""
        return sorted(self.root.glob(f"source/cdc/*/{hour}.json"))

    def driver(self) -> Driver:
        """A new driver, as a new process would have, but for the session, which is at hand."""
        made = Driver(self.settings, report=lambda _: None)
        made.tables = self.tables
        if self.spark is not None:
            made.use(self.spark)
        return made

    def refresh(self, hour: str | None, run_id: str = "plain", attempt: int = 1) -> Outcome:
        """Refresh one hour."""
        return operations.refresh_hour(self.run(hour, run_id, attempt), self.driver())

    def run(self, hour: str | None, run_id: str, attempt: int = 1) -> Run:
        """A run of this world's."""
        return Run(self.settings, hour, run_id, attempt, self.strategy)

    def catch_up(self, until: str) -> None:
        """What a plain re-run does: refresh the next pending hour, until there is none before ``until``."""
        for hour in HOURS:
            if hour <= until:
                self.refresh(hour)

    def published(self) -> tuple[str | None, Rows]:
        """The newest release: its hour, and its rows."""
        release = releases.require_release(self.lake, None)
        return release.hour, rows_of(self.lake, release)

    def copy(self, root: Path, at: str | None = None, strategy: str = "full") -> "World":
        """Another one like it, to be spoiled: just loaded, or as it was after an hour."""
        shutil.copytree(self.ahead[at], root)
        made = replace(self, root=root, in_part=[], strategy=strategy)
        if self.bucket:
            access = made.lake.access
            there = S3Path.of(f"{self.bucket}/{self.ahead[at].name}", access)
            there.copy_tree(S3Path.of(made.settings.lake, access))
        return made

    def remove(self) -> None:
        """Remove it with its lake."""
        shutil.rmtree(self.root, ignore_errors=True)
        if self.bucket:
            S3Path.of(self.settings.lake, self.lake.access).remove_tree()


def make_world(
    root: Path,
    spark: Any,
    tables: Registry,
    seed: int = 1,
    hours: list[str] = HOURS,
    *,
    bucket: str = "",
    merge_on_read: str = "8m",
) -> World:
    """Generate, load, and run the hours on copies to learn what is expected. The lake itself is just loaded.

    The source delivers as the feeds of ``tables`` say.
    """
    generate(root / "source", days=2, hours=len(hours), scale=0.02, seed=seed)
    deliver(root / "source", tables)
    world = World(root, spark, tables, bucket=bucket, merge_on_read=merge_on_read)
    operations.load(Run(world.settings, None, "load"), world.driver())
    world.expected[None], world.ahead[None] = world.published()[1], root
    former: str | None = None
    for hour in hours:
        then = world.copy(root.with_name(f"{root.name}-{hour}"), former)
        then.refresh(hour)
        published, world.expected[hour] = then.published()
        assert published == hour
        world.ahead[hour], former = then.root, hour
    return world


def rows_of(lake: Lake, release: releases.Release) -> Rows:
    """Count and hash of every table of a release."""
    with open_release(lake, release) as connection:
        query = "SELECT COUNT(*), COALESCE(SUM(HASH(t)), 0)::HUGEINT FROM {} AS t"
        return {table: connection.execute(query.format(table)).fetchall()[0] for table in release.versions}


# --- what is durable, and dying at it -------------------------------------------------------------------------------

_EFFECTS = (
    ("deltalake", "write_deltalake"),
    ("deltalake.DeltaTable", "restore"),
    ("deltalake.DeltaTable", "vacuum"),
    ("deltalake.DeltaTable", "delete"),
    ("deltalake.DeltaTable", "create_checkpoint"),
    ("deltalake.table.TableOptimizer", "compact"),
    ("deltalake.table.TableOptimizer", "z_order"),
    ("deltalake.table.TableMerger", "execute"),
    ("pyspark.sql.readwriter.DataFrameWriter", "save"),
    ("pathlib.Path", "replace"),
    ("medallion.storage.log_writer", "create_whole"),
    ("medallion.storage.data_files", "write_new"),
    ("medallion.storage.merge_on_read", "write_new"),
    ("medallion.storage.s3.S3Path", "write_bytes"),
    ("medallion.storage.s3.S3Path", "upload"),
)


class Effects:
    """Counts what a run makes durable, and dies before or after the one it is told to.

    error: what is raised at that one and all later ones, where it is not death. further: effects beside the usual ones.
    """

    def __init__(
        self,
        die_at: int | None = None,
        *,
        after: bool = False,
        error: BaseException | None = None,
        further: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.seen: list[str] = []
        self._effects = (*_EFFECTS, *further)
        self._error = error or Killed()
        self._die_at, self._after, self._dead = die_at, after, False
        self._lock = threading.Lock()

    def _around(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def effect(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                if self._dead:
                    raise self._error
                self.seen.append(name)
                mine = len(self.seen) - 1 == self._die_at
                if mine and not self._after:
                    self._dead = True
                    raise self._error
            done = work(*args, **kwargs)
            if mine:
                self._dead = True
            if self._dead:
                raise self._error
            return done

        return effect

    @contextmanager
    def watched(self) -> Iterator["Effects"]:
        """Count, and die, for the length of the block."""
        from importlib import import_module

        with ExitStack() as stack:
            for owner, name in self._effects:
                module, _, cls = owner.rpartition(".") if owner.split(".")[-1][0].isupper() else (owner, "", "")
                target = import_module(module)
                target = getattr(target, cls) if cls else target
                stack.enter_context(patch.object(target, name, self._around(name, getattr(target, name))))
            yield self


def dies(work: Callable[[], Any], die_at: int, *, after: bool, further: Sequence[tuple[str, str]] = ()) -> str:
    """Run ``work`` until its ``die_at``-th effect; what that was. further: as for Effects."""
    effects = Effects(die_at, after=after, further=further)
    try:
        with effects.watched():
            work()
    except Killed:
        pass
    return effects.seen[die_at] if len(effects.seen) > die_at else "none"


# --- a reader all along ---------------------------------------------------------------------------------------------


class Reader:
    """Polls the newest release in a thread; what it read is compared in the end with what each hour must hold."""

    def __init__(self, world: World) -> None:
        self._world, self._stop = world, threading.Event()
        self._seen: dict[tuple[str | None, str], Rows] = {}
        self.reads, self._failed = 0, list[str]()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def _poll(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                hour, rows = self._world.published()
                self._seen[hour, repr(rows)] = rows
            except Exception as error:  # whatever a reader gets to see counts
                self._failed.append(f"{type(error).__name__}: {error}")
            self.reads += 1
            self._stop.wait(max(0.2, 3 * (time.monotonic() - began)))  # it leaves the machine to what it watches

    @property
    def torn(self) -> list[str]:
        """Reads that failed, or gave what is neither the rows of their hour nor known to be published in part."""
        wrong = [*self._failed]
        for (hour, _), rows in self._seen.items():
            expected = self._world.expected[hour]
            if rows != expected and rows not in self._world.in_part:
                wrong.append(f"release of {hour}: {', '.join(t for t in rows if rows[t] != expected[t])}")
        return wrong

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def differing(world: World, hour: str | None) -> list[str]:
    """What is not as after an undisturbed run of ``hour``: tables by rows, ledgers, what is left over."""
    published, rows = world.published()
    wrong = [] if published == hour else [f"hour {published} is published, not {hour}"]
    wrong += [table for table, found in rows.items() if world.expected[hour][table] != found]
    for feed in world.tables.feeds:
        if world.lake.applied_hour(feed.name) != hour:
            wrong.append(f"{feed.name} is at {world.lake.applied_hour(feed.name)}")
    if read_restatement(world.lake) is not None:
        wrong.append("a restatement is still under way")
    return wrong


def shuffled(seed: int, choices: list[Any], limit: int) -> list[Any]:
    """``limit`` of ``choices``, chosen by ``seed``, in their order."""
    picked = random.Random(seed).sample(range(len(choices)), min(limit, len(choices)))
    return [choices[i] for i in sorted(picked)]
