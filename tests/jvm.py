"""The JVMs that tests start: what each of them is given, and how full the fullest of the suite was at its end."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from medallion.spark.compiler import QUICK_COMPILER
from medallion.spark.configuration import CODE_CACHE
from medallion.spark.jvm_usage import Unasked, Usage, fullest, jvm_usage, shortage, shown
from medallion.spark.own_jvm import end_of_jvm

# Tests are over before the JIT's second compiler pays off: without it a JVM needs half the CPU time. One that begins
# with neither session nor spark-submit of ours gets its room for code here as well.
TEST_JVM_OPTIONS = f"{QUICK_COMPILER} {CODE_CACHE}"

MAX_SHARE = 0.6  # of a limit that the tests of one worker may use: another machine may give one worker most of them

Figures = dict[str, Usage]
USAGES = pytest.StashKey[list[Figures]]()
TOLD = pytest.StashKey[list[str]]()


def renew_if_ended(item: pytest.Item) -> None:
    """Have the session that tests share made anew, with all fixtures that were made with it, if its JVM has ended.

    Said once, with the last words of the JVM: the tests behind it would each tell of a refused connection at length.
    """
    if (end := end_of_jvm()) is not None:
        item.config.stash.setdefault(TOLD, []).append(f"before {item.nodeid}: {end}")
        for fixture in item._fixtureinfo.name2fixturedefs["spark"]:  # type: ignore[attr-defined]
            fixture.finish(item._request)  # type: ignore[attr-defined]


def record_usage(config: pytest.Config, process: int) -> None:
    """Remember how full a JVM is, or why it gave no figures."""
    try:
        config.stash.setdefault(USAGES, []).append(jvm_usage(process))
    except Unasked as error:
        config.stash.setdefault(TOLD, []).append(f"not counted: {error}")


def as_output(config: pytest.Config) -> dict[str, Any]:
    """What a worker sends of its JVMs: numbers and words alone."""
    usages = [{name: (usage.used, usage.limit) for name, usage in of.items()} for of in config.stash.get(USAGES, [])]
    return {"usages": usages, "told": config.stash.get(TOLD, [])}


def take_output(config: pytest.Config, output: Mapping[str, Any]) -> None:
    """Add what a worker has sent."""
    sent = output.get("jvm", {"usages": [], "told": []})
    usages = [{name: Usage(*pair) for name, pair in figures.items()} for figures in sent["usages"]]
    config.stash.setdefault(USAGES, []).extend(usages)
    config.stash.setdefault(TOLD, []).extend(sent["told"])


def shortage_of_suite(config: pytest.Config) -> str:
    """Say which figures of the fullest JVM are above MAX_SHARE; empty where none is."""
    return shortage(fullest(config.stash.get(USAGES, [])), MAX_SHARE)


def summary_of_suite(config: pytest.Config) -> Iterator[str]:
    """The lines that the summary of the tests ends with; none where no test had a JVM."""
    yield from config.stash.get(TOLD, [])
    figures = fullest(usages := config.stash.get(USAGES, []))
    for name, usage in figures.items():
        yield f"{name.replace('_', ' ')}: {shown(name, usage)}"
    if figures:
        yield f"of {len(usages)} JVM{'s' * (len(usages) > 1)}, each figure where it was closest to its limit"
    if short := shortage_of_suite(config):
        yield f"more than {MAX_SHARE:.0%} of a limit is in use, which fails the tests: {short}"
