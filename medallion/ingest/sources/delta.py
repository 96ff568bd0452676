"""A Delta table that somebody else writes: the rows that its commits delete and insert, as they landed.

Landing reads them from the table (``medallion.ingest.delta_source``) as records of format insert_delete. A value is a
text if JSON has no form for it.
"""

from collections.abc import Sequence
from dataclasses import replace

from medallion.ingest.sources import Change, Reader
from medallion.ingest.sources.insert_delete import reader as reader_of_records
from medallion.ingest.value_forms import Forms
from medallion.model.table import Feed


def reader(feed: Feed) -> Reader:
    """Return a reader of one landed file of ``feed``."""
    return _Reader(feed)


class _Reader:
    expected = "commits of a Delta table"
    ignored_prefix: str | None = None

    def __init__(self, feed: Feed) -> None:
        self.forms = replace(Forms.of(feed.delivery), texts=True)
        self._records = reader_of_records(feed)

    def read(self, raw: bytes) -> Sequence[Change]:
        return self._records.read(raw)

    def position(self) -> None:
        return None  # commits are in order

    def notes(self) -> list[str]:
        return []
