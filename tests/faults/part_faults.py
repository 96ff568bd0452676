"""Faults of a source with several files of an hour: one is missing, spoiled, late, delivered again, replaced, gone."""

import gzip
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from medallion.errors import MedallionError
from medallion.pipeline import operations, steps
from tests.faults.faults import (
    H0,
    H1,
    H2,
    Fault,
    count_effects,
    deaths,
    full_disk,
    killed_after,
    killed_at_commit,
    refresh,
    restate,
)
from tests.faults.kafka import parts, place_of, read_part, write_part
from tests.faults.world import World

TOPICS = ("orders", "order_items", "inventory_events")


def faults_of_parts(worlds: Callable[[str | None], World], seed: int) -> list[Fault]:
    """Every one of them; random ones by ``seed``. worlds: gives a world to count in, as it was after an hour."""
    chance = random.Random(seed)
    refreshed, restated = count_effects(worlds(H0), refresh(H1)), count_effects(worlds(H2), restate(H2))
    return [
        *deaths("refresh", "F1", refresh(H1), H0, H1, refreshed),
        *deaths("restatement", "F1", restate(H2), H2, H2, restated),
        *(full_disk(number) for number in range(0, refreshed, 4)),
        *(killed_at_commit(n, jvm=jvm, landed=True) for n in (1, 4, 9) for jvm in (True, False)),
        *(killed_after(chance.uniform(6, 30), jvm=True) for _ in range(2)),
        *(fault for topic in TOPICS for fault in of_feed(topic, chance)),
    ]


def of_feed(topic: str, chance: random.Random) -> Iterator[Fault]:
    """Yield those of one feed, each of some file of the hour."""
    spoiled: dict[str, Callable[[bytes], bytes]] = {
        "is cut off": lambda raw: raw[: max(1, len(raw) * chance.randrange(1, 10) // 10)],
        "lacks its last byte": lambda raw: raw[:-1],
        "has no bytes": lambda raw: b"",
        "is not packed": gzip.decompress,
        "ends in the middle of a record": lambda raw: gzip.compress(gzip.decompress(raw)[:-9]),
        "is a page of a proxy": lambda raw: gzip.compress(b"<html>502</html>\n"),
        "has a line that is no record": lambda raw: gzip.compress(gzip.decompress(raw) + b"nonsense\n"),
    }
    for what, spoil in spoiled.items():
        yield _mended(topic, f"a part of {topic} {what}", chance.random(), _replacing(spoil))
    yield _mended(topic, f"a part of {topic} is still being written", chance.random(), _still_written)
    yield _mended(topic, f"a part of {topic} is missing", chance.random(), _withheld)
    yield _mended(topic, f"a part of {topic} has another record at the same offset", chance.random(), _conflicting)
    yield _late(topic, chance.random())
    for when in ("before it lands", "once it has landed", "once it is published"):
        yield _delivered_again(topic, when, chance.random())
    for when in ("once it has landed", "once it is published"):
        yield _withdrawn(topic, when, chance.random())
    yield _replaced_once_landed(topic, chance.random())


def some_part(world: World, topic: str, share: float) -> Path:
    """Return one of the files of a feed and H1."""
    every = parts(world.root / "source", topic, H1)
    return every[int(share * len(every))]


def _mended(topic: str, name: str, share: float, spoil: Callable[[World, Path], Callable[[], object]]) -> Fault:
    """A part is wrong, and the hour refused or applied in part; then it is right, and the hour run or restated.

    spoil: does harm to a file, and returns what undoes it.
    """

    def strike(world: World) -> str:
        mend = spoil(world, some_part(world, topic, share))
        try:
            outcome = world.refresh(H1, "struck").status
        except MedallionError as refused:
            outcome = f"refused: {refused}"
        mend()
        if not outcome.startswith("refused"):
            world.in_part.append(world.published()[1])
            operations.restate(world.run(H1, "restate"), world.driver())
        return outcome[:160]

    return Fault(name, "F42", H0, H1, strike)


def _replacing(spoil: Callable[[bytes], bytes]) -> Callable[[World, Path], Callable[[], object]]:
    def harm(_: World, file: Path) -> Callable[[], object]:
        right = file.read_bytes()
        file.write_bytes(spoil(right))
        return lambda: file.write_bytes(right)

    return harm


def _still_written(_: World, file: Path) -> Callable[[], object]:
    partial = file.rename(file.with_name(f"{file.name}.tmp"))
    return lambda: partial.rename(file)


def _withheld(world: World, file: Path) -> Callable[[], object]:
    aside = file.rename(world.root / file.name)
    return lambda: aside.rename(file)


def _conflicting(world: World, file: Path) -> Callable[[], object]:
    (partition, offset), records = place_of(file), read_part(file)
    other = [records[-1] | {"ts_ms": 1}]
    topic = file.name.partition("+")[0]
    if len(records) == 1:  # a second file cannot begin where the first one does
        return lambda: None
    wrong = write_part(world.root / "source", topic, H1, (partition, offset + len(records) - 1), other)
    return wrong.unlink


def _late(topic: str, share: float) -> Fault:
    """A part comes when the hour after its own is published."""

    def strike(world: World) -> str:
        bring = _withheld(world, some_part(world, topic, share))
        for hour in (H1, H2):
            world.refresh(hour, "struck")
            world.in_part.append(world.published()[1])
        bring()
        outcome = operations.restate(world.run(H1, "restate"), world.driver())
        return outcome.message[:160]

    return Fault(f"a part of {topic} comes an hour late", "F42", H0, H2, strike)


def _again(world: World, file: Path, share: float) -> str:
    """Deliver records of a file once more, in one that is cut elsewhere."""
    (partition, offset), records = place_of(file), read_part(file)
    start = int(share * len(records))
    end = max(start + 1, len(records) - 1)
    topic = file.name.partition("+")[0]
    if start:
        write_part(world.root / "source", topic, H1, (partition, offset + start), records[start:end])
    return f"records {start} to {end} of {len(records)} came again"


def _delivered_again(topic: str, when: str, share: float) -> Fault:
    """Records come twice: before the hour lands, or later."""

    def strike(world: World) -> str:
        file = some_part(world, topic, share)
        if "landed" in when:
            steps.run_step("land", world.run(H1, "struck"), world.driver(), None)
        elif "published" in when:
            world.refresh(H1, "struck")
        done = _again(world, file, share)
        world.refresh(H1, "again")
        if "published" in when:
            operations.restate(world.run(H1, "restate"), world.driver())
        return done

    return Fault(f"records of {topic} come again {when}", "F42", H0, H1, strike)


def _withdrawn(topic: str, when: str, share: float) -> Fault:
    """The source forgets a part: what landed is applied, and restated."""

    def strike(world: World) -> str:
        if "published" in when:
            world.refresh(H1, "struck")
        else:
            steps.run_step("land", world.run(H1, "struck"), world.driver(), None)
        file = some_part(world, topic, share)
        file.unlink()
        if "published" in when:
            operations.restate(world.run(H1, "restate"), world.driver())
        return f"{file.name} is gone"

    return Fault(f"a part of {topic} is withdrawn {when}", "F42", H0, H1, strike)


def _replaced_once_landed(topic: str, share: float) -> Fault:
    """A part is replaced by a spoiled one between landing and applying, then it is right again."""

    def strike(world: World) -> str:
        steps.run_step("land", world.run(H1, "struck"), world.driver(), None)
        file = some_part(world, topic, share)
        mend = _replacing(lambda raw: raw[:-5])(world, file)
        outcome = "applied as it landed"
        with suppress(MedallionError):
            steps.run_step("apply", world.run(H1, "struck"), world.driver(), None)
            outcome = "applied"
        mend()
        return outcome

    return Fault(f"a part of {topic} is replaced once it has landed", "F42", H0, H1, strike)
