"""Find pending hours, and check that the files of the next one have settled, so that no half-written file is read."""

import time
from collections.abc import Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import Thread

from medallion.ingest import ledger
from medallion.ingest.listing import Listing, change_files
from medallion.ingest.restatement import read_restatement
from medallion.ingest.source import Source, SourceFile, open_source
from medallion.ops.lake_tables import tables_of
from medallion.settings import Settings
from medallion.storage.lake import Lake


def pending_at_source(settings: Settings, until: str | None = None) -> list[str]:
    """List the hours that a refresh must apply next, oldest first: one listing of the source, no file content.

    Args:
        settings: The settings that name the lake and the source.
        until: The last hour of interest, included; None for all.

    Raises:
        UsageError: The source does not exist, or the lake has not been loaded.
    """
    return _pending(settings, open_source(settings), until)[0]


class PendingInBackground:
    """List the pending hours while the caller reads the lake; a source that does not answer holds nobody up."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._hours: list[str] | None = None
        work = partial(copy_context().run, self._list)  # the project that was entered counts in the thread too
        self._thread = Thread(target=work, daemon=True)
        self._thread.start()

    def _list(self) -> None:
        with suppress(Exception):  # whatever is wrong with the source, the state of the lake can be shown
            self._hours = pending_at_source(self._settings)

    def wait(self, seconds: float) -> list[str] | None:
        """Return the pending hours; None if the source cannot be listed, or not within ``seconds`` from now."""
        self._thread.join(seconds)
        return self._hours


def _pending(settings: Settings, source: Source, until: str | None = None) -> tuple[list[str], Listing]:
    """Return the pending hours, and what the source lists."""
    lake = Lake.of(settings)
    tables = tables_of(lake, settings.extras)
    listing = change_files(source, tables.feeds)
    applied, restated = ledger.applied_hour(lake, tables), read_restatement(lake)
    due, first = ledger.landed_hours(lake), ""
    if restated is not None:
        due |= {*restated.hours}
        if not restated.rewound:  # the next refresh restores Bronze first
            applied, first = None, min((restated.hour, *restated.hours))
    pending = ledger.pending_hours(applied, listing.hours_after(applied), due, until)
    return [hour for hour in pending if hour >= first], listing


class Arrivals:
    """Poll the source for the next pending hour, and report when its files have settled."""

    def __init__(self, settings: Settings, settle: float) -> None:
        """Prepare to poll. settle: seconds for which the files of an hour must not have been modified."""
        self._settings, self._settle = settings, settle
        self._files: tuple[str, Mapping[str, SourceFile]] | None = None
        self._seen_at = 0.0

    def look(self) -> tuple[str, float] | None:
        """Return the next pending hour and when its files were last modified; None until they have settled."""
        files = self._next()
        if files != self._files:
            self._files, self._seen_at = files, time.time()
        return (files[0], self._modified_at()) if files is not None and self.seconds_to_settle() == 0 else None

    def seconds_to_settle(self) -> float | None:
        """Return the seconds until the files of the pending hour have settled; None when no hour is pending."""
        return None if self._files is None else max(0.0, self._modified_at() + self._settle - time.time())

    def _modified_at(self) -> float:
        """Return when the newest file of the pending hour was modified, or first seen if that was earlier.

        The clock of a source may be ahead, and the source may no longer have files of an hour that has landed.
        """
        files = self._files[1] if self._files else {}
        return min(self._seen_at, max((file.modified for file in files.values()), default=self._seen_at))

    def _next(self) -> tuple[str, Mapping[str, SourceFile]] | None:
        """Return the next pending hour with every file that has the hour in its name."""
        hours, listing = _pending(self._settings, open_source(self._settings))
        return (hours[0], listing.files_of(hours[0])) if hours else None
