"""Tables are refreshed in dependency order, side by side where they can be."""

from threading import Event

import pytest

from medallion.model.table import Table
from medallion.pipeline.table_order import run_in_order
from medallion.storage.fence import LeaseLost


def table(name: str, reads: str) -> Table:
    return Table(keys=("k",), query=f"SELECT k FROM {{{reads}}}", name=name)


def test_table_starts_only_after_the_tables_it_reads() -> None:
    finished: list[str] = []
    tables = (table("gold_b", "gold_a"), table("gold_c", "gold_b"), table("gold_a", "silver_x"))
    run_in_order(tables, lambda t: finished.append(t.name))
    assert finished == ["gold_a", "gold_b", "gold_c"]


def test_a_failed_table_stops_those_that_follow_from_it_and_no_other() -> None:
    started: list[str] = []

    def work(t: Table) -> None:
        started.append(t.name)
        if t.name == "gold_a":
            raise ValueError("broken")

    tables = (table("gold_a", "silver_x"), table("gold_b", "gold_a"), table("gold_c", "gold_b"))
    others = tuple(table(f"gold_{n}", "silver_x") for n in range(8))
    failures = run_in_order((*tables, *others), work)
    assert sorted(started) == sorted(["gold_a", *(t.name for t in others)])
    assert [*failures.errors] == ["gold_a"]
    assert failures.waiting == {"gold_b": "gold_a", "gold_c": "gold_a"}


def test_no_table_starts_after_the_writer_lease_was_lost() -> None:
    started: list[str] = []
    failed = Event()

    def work(t: Table) -> None:
        started.append(t.name)
        if t.name == "gold_0":
            failed.set()
            raise LeaseLost("another writer has taken over")
        failed.wait(10)

    with pytest.raises(LeaseLost, match="another writer"):
        run_in_order(tuple(table(f"gold_{n}", "silver_x") for n in range(40)), work)
    assert len(started) < 20, "those waiting for a thread do not start"
