"""The process that Airflow forks its task workers from starts with the scheduler, not with the first task.

It loads for several seconds what tasks need (preload.py), which the first run would wait for.
"""

import multiprocessing
from multiprocessing import forkserver
from typing import Any

from airflow.listeners import hookimpl


class EarlyForkserver:
    """The listener; where ``[scheduler] mp_start_method`` is not forkserver it does nothing."""

    @hookimpl
    def on_starting(self, component: Any) -> None:
        """Start the process when a component of Airflow does, whose start method is set by then."""
        is_task = type(component).__name__ != "Job"  # its class is not imported: every task loads this module
        if not is_task and multiprocessing.get_start_method() == "forkserver":
            forkserver.ensure_running()
