"""Start Airflow's forkserver, the process that task workers are forked from, with the scheduler.

It loads what tasks need (preload.py), which takes several seconds. Otherwise the first task starts it and waits.
"""

import multiprocessing
from multiprocessing import forkserver
from typing import Any

from airflow.listeners import hookimpl


class EarlyForkserver:
    """The listener that starts it. It does nothing unless ``[scheduler] mp_start_method`` is forkserver."""

    @hookimpl
    def on_starting(self, component: Any) -> None:
        """Start the process when a component of Airflow starts; the start method is set by then."""
        is_task = type(component).__name__ != "Job"  # by name, as every task would import the class
        if not is_task and multiprocessing.get_start_method() == "forkserver":
            forkserver.ensure_running()
