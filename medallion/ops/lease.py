"""The writer lease: a record in the lake itself that says which machine may write, until when, and with which number.

A lease ends TTL_SECONDS after its last renewal, by the clock of the lake's storage. Its holder renews it in a thread,
and stops writing SAFETY_SECONDS before its end. The holder measures elapsed seconds by its own clock, so the clocks of
two machines need not agree. See docs/adr/0014-writer-lease.md.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

from medallion.errors import MedallionError, advice
from medallion.ops import releases
from medallion.storage.fence import LeaseLost
from medallion.storage.lake import Lake
from medallion.storage.shared_record import Entry, SharedRecord, shared_record

TTL_SECONDS = 60.0  # from the last renewal of a lease to its end
SAFETY_SECONDS = 15.0  # the holder stops so long before the end, for pauses between a check and the next commit
RENEWALS = 4  # renewals attempted within TTL_SECONDS


class Lease:
    """The lease of this process, which is renewed until it is given back.

    number: the fencing number, higher than that of every former holder. lost: called once, from a thread, if the lease
    is lost.
    """

    def __init__(
        self, lake: Lake, entry: Entry, began: tuple[float, float], owner: str, lost: Callable[[], None]
    ) -> None:
        self.number: int = entry.content["fence"]
        self._lake, self._record = lake, lease_record(lake)
        self._entry, self._renewed, self._owner, self._on_loss = entry, began, owner, lost
        self._ended: str | None = None
        self._lock, self._stop = Lock(), Event()
        for work in (self._keep_renewed, self._watch):
            Thread(target=work, name=f"lease {self.number}", daemon=True).start()

    def require(self) -> None:
        """Raise LeaseLost if the lease may have ended; checks only the clock."""
        if self._ended is None and (silent := _seconds_since(self._renewed)) > TTL_SECONDS - SAFETY_SECONDS:
            self._ended = f"it could not be renewed for {silent:.0f} seconds"
        if self._ended is not None:
            raise LeaseLost(
                f"this run has lost writer lease {self.number} of lake {self._lake.root}: {self._ended}; it writes"
                f" nothing more; {advice.see_status()} for the current writer, then run this again"
            )

    def confirm(self) -> None:
        """Raise LeaseLost if the lease is no longer held; checks the store by renewing the lease."""
        self.require()
        try:
            self.renew()
        except LeaseLost:
            raise
        except MedallionError as error:
            raise LeaseLost(f"writer lease {self.number} cannot be confirmed: {error}") from error

    def renew(self) -> None:
        """Extend the lease by one write. Raises LeaseLost if somebody else has it, MedallionError without network."""
        with self._lock:
            if self._stop.is_set():
                return
            began = _now()
            entry = self._record.swap(self._entry, self._entry.content)
            if entry is None:  # somebody wrote: another process, or this one in a request whose answer was lost
                entry, began = self._record.read(), self._renewed
                if entry is None or entry.content.get("owner") != self._owner or "revoked_by" in entry.content:
                    content = {} if entry is None else entry.content
                    self._ended = f"{content.get('revoked_by') or content.get('who') or 'another run'} took it over"
                    self.require()
                    return
            self._entry, self._renewed = entry, began

    def give_back(self) -> None:
        """End the lease, so that another holder can take it at once."""
        with self._lock:
            self._stop.set()
            if self._ended is None:
                with suppress(MedallionError):  # without network, it ends by itself later
                    self._record.swap(self._entry, {"fence": self.number, "owner": ""})

    def _keep_renewed(self) -> None:
        while not self._stop.wait(TTL_SECONDS / RENEWALS):
            with suppress(MedallionError):  # the next try may succeed, or the watch ends the lease
                self.renew()

    def _watch(self) -> None:
        while not self._stop.wait(TTL_SECONDS / 60):
            try:
                self.require()
            except LeaseLost:
                self._on_loss()
                return


def acquire(
    lake: Lake,
    holder: Mapping[str, Any],
    describe: str,
    *,
    may_take: Callable[[Mapping[str, Any]], bool],
    revokes: Callable[[Mapping[str, Any]], bool],
    lost: Callable[[], None],
) -> Lease | Mapping[str, Any]:
    """Take the lease if it is free and return it; else return the current holder, as it described itself.

    Args:
        lake: The lake.
        holder: The new holder, for the record.
        describe: The new holder in words.
        may_take: Whether a holder that has not given the lease back is known to be dead.
        revokes: Whether a holder that is alive is superseded by the new one. It is then told to stop, and its lease
            ends after TTL_SECONDS.
        lost: As for Lease.
    """
    record, owner = lease_record(lake), uuid4().hex
    while True:
        began = _now()
        entry = record.read()
        if entry is not None and _is_held(entry) and not may_take(entry.content["holder"]):
            if "revoked_by" not in entry.content and revokes(entry.content["holder"]):
                record.swap(entry, {**entry.content, "revoked_by": describe})
            return dict(entry.content["holder"])
        former = None if entry is None else entry.content.get("fence")
        content = {
            "fence": 1 + (former or max(_last_published(lake), 0 if entry is None else entry.number)),
            "owner": owner,
            "who": describe,
            "holder": dict(holder),
        }
        taken = record.swap(entry, content)
        if taken is None and (other := record.read()) is not None and other.content.get("owner") == owner:
            taken = other  # the answer to the first request was lost
        if taken is not None:
            return Lease(lake, taken, began, owner, lost)


def current_holder(lake: Lake) -> Mapping[str, Any] | None:
    """Return the current holder of the lease, as it described itself; None if nobody holds it."""
    record = lease_record(lake)
    entry = record.read()
    return dict(entry.content["holder"]) if entry is not None and _is_held(entry) else None


def lease_record(lake: Lake) -> SharedRecord:
    """Return the shared record of a lake's lease."""
    return shared_record(lake.at(lake.ops("lease")))


def _is_held(entry: Entry) -> bool:
    """Whether somebody holds the lease and it has not expired.

    A lease that was copied along with its lake expires the same way. A copy cannot be recognised earlier: for example,
    the inode of a folder may change, or differ on another machine, while the holder is alive.
    """
    return bool(entry.content.get("owner")) and entry.age < TTL_SECONDS


def _last_published(lake: Lake) -> int:
    """Return the fencing number of the newest release: if the record is missing or damaged, the next must be higher."""
    release = releases.latest(lake)
    return 0 if release is None else release.fence or 0


def _now() -> tuple[float, float]:
    """Return the time by two clocks: one advances while the machine is suspended, the other while its guest is."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock), time.time()


def _seconds_since(since: tuple[float, float]) -> float:
    """Return the seconds since a time of ``_now``, by the clock that has advanced more."""
    now = _now()
    return max(now[0] - since[0], now[1] - since[1])
