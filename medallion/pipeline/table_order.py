"""The tables of a layer in dependency order, independent ones at the same time."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from graphlib import TopologicalSorter

from medallion.model.table import Table
from medallion.spark.session import in_parallel


def run_in_order(tables: tuple[Table, ...], work: Callable[[Table], None]) -> None:
    """Run ``work`` for each table once its inputs among ``tables`` are done, independent ones at the same time.

    The first failure is raised after what was running has ended; no other table starts.
    """
    by_name = {table.name: table for table in tables}
    order = TopologicalSorter({t.name: [name for name in t.inputs if name in by_name] for t in tables})
    order.prepare()
    with in_parallel() as pool:
        running: dict[Future[None], str] = {}
        while order.is_active():
            running.update({pool.submit(work, by_name[name]): name for name in order.get_ready()})
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            try:
                for future in done:
                    future.result()
                    order.done(running.pop(future))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
