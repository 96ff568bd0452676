"""Run work for the tables of a layer in dependency order, independent tables at the same time."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from medallion.model.table import Table
from medallion.spark.session import in_parallel
from medallion.storage.fence import LeaseLost


@dataclass(frozen=True)
class Failures:
    """Failed tables and those that wait for them.

    errors: by failed table, in the order in which they ended. waiting: by table that was not begun, the failed table
    that it depends on.
    """

    errors: dict[str, Exception] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)

    def cause_of(self, table: Table) -> str | None:
        """Return the failed table that ``table`` reads, directly or through others; None if none of them failed."""
        causes = (name if name in self.errors else self.waiting.get(name) for name in table.inputs)
        return next(filter(None, causes), None)


def run_in_order(tables: tuple[Table, ...], work: Callable[[Table], None]) -> Failures:
    """Run ``work`` for each table once its inputs among ``tables`` are done, independent ones at the same time.

    A failed table stops only the tables that follow from it. The loss of the writer lease, and whatever ends the
    process, is raised after running work has ended; no other table is started then.
    """
    by_name = {table.name: table for table in tables}
    order = TopologicalSorter({t.name: [name for name in t.inputs if name in by_name] for t in tables})
    order.prepare()
    failures = Failures()
    with in_parallel() as pool:
        running: dict[Future[None], str] = {}
        while order.is_active():
            for name in order.get_ready():
                if cause := failures.cause_of(by_name[name]):
                    failures.waiting[name] = cause
                    order.done(name)
                else:
                    running[pool.submit(work, by_name[name])] = name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            try:
                for future in done:
                    name = running.pop(future)
                    try:
                        future.result()
                    except LeaseLost:
                        raise
                    except Exception as error:
                        failures.errors[name] = error
                    order.done(name)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return failures
