"""The fencing number of this process's lease on a lake, which is checked before each commit and written into it.

A process writes to one lake at a time, so its newest lease counts. A process without a lease, such as a test of one
function, commits without a number.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from medallion.errors import MedallionError

KEY = "fence"


class LeaseLost(MedallionError):
    """This process is no longer the lake's writer: it must neither commit nor publish."""


class Lease(Protocol):
    """The lease of a lake's writer. number: grows with each holder."""

    number: int

    def require(self) -> None:
        """Raise LeaseLost if the lease may have ended; checks only the clock."""

    def confirm(self) -> None:
        """Raise LeaseLost if the lease is no longer held; checks the store."""


_held: list[Lease] = []


@contextmanager
def holding(lease: Lease) -> Iterator[None]:
    """Fence this process's commits by ``lease`` until the block ends."""
    _held.append(lease)
    try:
        yield
    finally:
        _held.remove(lease)


def require() -> None:
    """Raise LeaseLost if this process had a lease and may have lost it."""
    if _held:
        _held[-1].require()


def stamp() -> dict[str, int]:
    """Return the fencing number as metadata for the next commit; empty without a lease.

    Raises LeaseLost if the lease may have ended.
    """
    require()
    return {KEY: _held[-1].number} if _held else {}


def confirm() -> int | None:
    """Return the fencing number after the store has confirmed the lease; None without a lease.

    Raises LeaseLost if the lease is no longer held.
    """
    if not _held:
        return None
    _held[-1].confirm()
    return _held[-1].number
