"""Which hour is next in line at the source, and whether its files have settled: none is taken half written."""

import time
from collections.abc import Mapping

from medallion.errors import HourNotAvailable
from medallion.ingest import ledger
from medallion.ingest.source import change_files, open_source
from medallion.ops.lake_tables import tables_of
from medallion.settings import Settings
from medallion.storage.lake import Lake


def pending_at_source(settings: Settings, until: str | None = None) -> list[str]:
    """List the hours that a refresh has to take next, oldest first: one listing of the source, no file content.

    Args:
        settings: Name the lake and the source.
        until: The last hour of interest, included; None for all.

    Raises:
        UsageError: The source does not exist, or the lake has not been loaded.
    """
    lake = Lake(settings.lake)
    tables = tables_of(lake, settings.extras)
    listed = change_files(open_source(settings), tuple(feed.topic for feed in tables.feeds))
    applied = ledger.applied_hour(lake, tables)
    return ledger.pending_hours(applied, listed, ledger.landed_hours(lake), until)


class Arrivals:
    """Looks at the source, as often as it is asked to, and remembers what it saw."""

    def __init__(self, settings: Settings, settle: float) -> None:
        """settle: seconds for which the files of an hour must have stayed as they are."""
        self._settings, self._lake, self._settle = settings, Lake(settings.lake), settle
        self._seen: tuple[str, Mapping[str, int]] | None = None
        self._arrived = self._since = 0.0

    def look(self) -> tuple[str, float] | None:
        """The next hour in line and when its files last changed; None while there is none that has settled."""
        found = self._next()
        if found != self._seen:
            self._seen, self._arrived, self._since = found, time.time(), time.monotonic()
        settled = found is not None and time.monotonic() - self._since >= self._settle
        return (found[0], self._arrived) if found is not None and settled else None

    def _next(self) -> tuple[str, Mapping[str, int]] | None:
        """The next hour in line, with the size of each of its files."""
        source, tables = open_source(self._settings), tables_of(self._lake, self._settings.extras)
        files = change_files(source, tuple(feed.topic for feed in tables.feeds))
        applied = ledger.applied_hour(self._lake, tables)
        try:
            hour = ledger.in_line(None, applied, files, ledger.landed_hours(self._lake))
        except HourNotAvailable:
            return None
        sizes = {}
        for topic, name in files.get(hour, {}).items():
            stream, size = source.open(name)
            stream.close()
            sizes[topic] = size
        return hour, sizes
