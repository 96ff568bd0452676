"""What tests of several workers begin with, such as a loaded lake: made by the first that needs it, copied by all."""

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Made = TypeVar("Made")


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]) -> tuple[Path, Made]:
    """Return a folder of the whole run of tests, and what ``make`` returned when it filled it.

    A second worker waits for the first, and makes it itself where that failed. What is in the folder must stay as it
    is: whoever changes anything changes a copy.

    Args:
        factory: pytest's.
        name: Of the folder.
        make: Called with the empty folder. What it returns can be pickled.
    """
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    answer = shared / f"{name}.pickle"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if answer.exists():
            folder, made = pickle.loads(answer.read_bytes())
            return folder, made
        folder = factory.mktemp(name)
        made = make(folder)
        answer.write_bytes(pickle.dumps((folder, made)))
        return folder, made
