"""The contents of quarantine: rejected change lines, and rows that tables drop by their own expectations."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from medallion.ingest.quarantine import count_rejected
from medallion.inspect.query import open_release, select
from medallion.model.registry import Registry
from medallion.model.table import QUARANTINE
from medallion.ops import releases
from medallion.storage.lake import Lake


@dataclass(frozen=True)
class Quarantined:
    """The number of quarantined lines of a feed and hour, or rows of a table, for one reason. hour: None for rows."""

    name: str
    kind: Literal["rejected lines", "dropped rows"]
    hour: str | None
    reason: str
    count: int


def count_rejected_lines(lake: Lake, tables: Registry) -> list[Quarantined]:
    """Count the rejected lines in quarantine, by feed, hour and reason."""
    return [
        Quarantined(topic, "rejected lines", hour, reason, count)
        for topic, feed in sorted({feed.topic: feed for feed in tables.feeds}.items())
        for (hour, reason), count in sorted(count_rejected(lake, feed).items())
    ]


def count_dropped_rows(lake: Lake) -> Iterator[Quarantined]:
    """Yield, by reason, the number of rows that each table of the newest release drops; nothing without a release."""
    release = releases.latest(lake)
    names = sorted(name for name in release.versions if name.startswith(QUARANTINE)) if release else []
    if release is None or not names:
        return
    with open_release(lake, release, names) as connection:
        for name in names:
            counts = f"SELECT _broken, COUNT(*) FROM {name} GROUP BY ALL ORDER BY ALL"  # noqa: S608 (a declared name)
            for reason, count in select(connection, counts).fetchall():
                yield Quarantined(name.removeprefix(QUARANTINE), "dropped rows", None, reason, count)
