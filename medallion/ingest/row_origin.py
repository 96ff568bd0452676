"""The change files and lines that the rows of a failed check came with: what a person opens at the source.

It is evidence for a message and nothing else: a file that cannot be read here is named without its lines.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from medallion.ingest.landing import landed_file
from medallion.ingest.ledger import read_manifest_if_whole
from medallion.model.registry import Registry
from medallion.model.table import Feed, Log
from medallion.storage.lake import Lake

Example = Mapping[str, str | None]  # a failed row, column to value as text

MAX_BYTES = 64 << 20  # of a file that is searched
MAX_FILES = 3  # that are named
MAX_SPANS = 3  # of lines of one file and kind that are named
MAX_HOURS = 48  # that are searched, the newest


def describe_origin(
    lake: Lake, tables: Registry, table: str, hours: Sequence[str], examples: Collection[Example]
) -> str:
    """Name the change files that may have made a check of ``table`` fail, with lines where they are known.

    Args:
        lake: The lake with the landed files.
        tables: Its tables.
        table: The table that failed, of any layer.
        hours: The hours whose files may be at fault, oldest first.
        examples: Failed rows: only files and lines with their keys are named, where any has them. Without any, the
            table failed as a whole, and every file of the hours that it follows from is named.
    """
    feeds = feeds_of(tables, table)
    files = [(feed, hour) for hour in hours[-MAX_HOURS:] for feed in feeds if _has_lines(lake, feed, hour)]
    texts = [text for feed, hour in files if (text := _matching_lines(lake, feed, hour, examples))] if examples else []
    if not texts and (not examples or len(files) == 1):
        texts = [_all_lines(lake, feed, hour) for feed, hour in files]
    more = f" and {len(texts) - MAX_FILES} more files" if len(texts) > MAX_FILES else ""
    return ", ".join(texts[:MAX_FILES]) + more


def feeds_of(tables: Registry, name: str) -> tuple[Feed, ...]:
    """Return the feeds that a table is computed from, in the order of the registry; of a feed, itself."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        node = tables[waiting.pop()]
        if node.name not in reached:
            reached.add(node.name)
            waiting += [node.of] if isinstance(node, Log) else node.inputs
    return tuple(feed for feed in tables.feeds if feed.name in reached)


def _has_lines(lake: Lake, feed: Feed, hour: str) -> bool:
    manifest = read_manifest_if_whole(lake, hour)
    return manifest is not None and feed.topic in manifest.files and manifest.files[feed.topic].bytes > 0


def _matching_lines(lake: Lake, feed: Feed, hour: str, examples: Collection[Example]) -> str | None:
    """Name the lines of a file that have the keys of failed rows; None where no row has the file's keys, or no line."""
    keys = {tuple(example[key] for key in feed.keys) for example in examples if all(map(example.get, feed.keys))}
    if not keys:
        return None
    numbers = [n for n, _, row in _lines(lake, feed, hour) if tuple(str(row.get(key)) for key in feed.keys) in keys]
    return f"{_name(feed, hour)} {_spans(numbers)}" if numbers else None


def _all_lines(lake: Lake, feed: Feed, hour: str) -> str:
    """Name a file with the lines that insert, and those that delete."""
    by_kind: dict[str, list[int]] = {}
    for number, kind, _ in _lines(lake, feed, hour):
        by_kind.setdefault(kind, []).append(number)
    parts = [f"{_spans(numbers)} {kind}" for kind, numbers in by_kind.items()]
    return f"{_name(feed, hour)}: {' and '.join(parts)}" if parts else _name(feed, hour)


def _name(feed: Feed, hour: str) -> str:
    return f"{feed.topic}/{hour}.json"


def _lines(lake: Lake, feed: Feed, hour: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield number, kind (insert or delete) and row of each line that is a change; none of a file beyond the bound."""
    path = landed_file(lake, feed.topic, hour)
    try:
        if path.stat().st_size > MAX_BYTES:
            return
        text = path.read_text("utf-8")
    except (OSError, ValueError):
        return
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            ((kind, row),) = json.loads(line).items()
        except (ValueError, AttributeError):
            continue
        if isinstance(row, dict):
            yield number, kind, row


def _spans(numbers: Iterable[int]) -> str:
    """Name line numbers, neighbours as a span: ``lines 1 to 3, 7``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    shown = [f"{first}" if first == last else f"{first} to {last}" for first, last in islice(spans, MAX_SPANS)]
    more = sum(last - first + 1 for first, last in spans[MAX_SPANS:])
    count = sum(last - first + 1 for first, last in spans)
    return f"line{'s' * (count > 1)} {', '.join(shown)}" + (f" and {more:,} more" if more else "")
