"""The fencing number of this process's lease on a lake: checked before each commit, and written into it.

A process writes to one lake at a time: its newest lease counts. A process without a lease, such as a test of one
function, commits without a number.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from medallion.errors import MedallionError

KEY = "fence"


class LeaseLost(MedallionError):
    """This process is not the lake's writer any more: it must neither commit nor publish."""


class Lease(Protocol):
    """What a writer holds. number: grows with each holder of the lake."""

    number: int

    def require(self) -> None:
        """Raise LeaseLost when the lease may have ended; asks the clock alone."""

    def confirm(self) -> None:
        """Raise LeaseLost when the lease is not held any more; asks the store."""


_held: list[Lease] = []


@contextmanager
def holding(lease: Lease) -> Iterator[None]:
    """Fence this process's commits by ``lease`` for the length of the block."""
    _held.append(lease)
    try:
        yield
    finally:
        _held.remove(lease)


def require() -> None:
    """Raise LeaseLost when this process had a lease and may have lost it."""
    if _held:
        _held[-1].require()


def stamp() -> dict[str, int]:
    """The fencing number as commit metadata, for a commit that is about to be made; empty without a lease.

    Raises LeaseLost when the lease may have ended.
    """
    require()
    return {KEY: _held[-1].number} if _held else {}


def confirm() -> int | None:
    """The fencing number, after the store has confirmed the lease; None without one. Raises LeaseLost."""
    if not _held:
        return None
    _held[-1].confirm()
    return _held[-1].number
