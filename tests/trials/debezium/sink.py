"""Hourly files as Kafka Connect's S3 sink writes them, from a log of records; some of the records come twice."""

import gzip
import json
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RECORDS = 40  # of a file


@dataclass
class Written:
    """What was written. files, records: all of them. again: files that were delivered a second time, cut elsewhere."""

    files: int = 0
    records: int = 0
    without_content: int = 0
    again: int = 0


def write_hours(log: Path, source: Path, hours: Sequence[str], ends: Sequence[int], chance: random.Random) -> Written:
    """Write the records of a folder of logs to hourly files.

    Args:
        log: Files <topic>-<partition> with a record on each line, null for one without content.
        source: The root of the source.
        hours: The hours, one more than their ends.
        ends: When each hour ended by the database's clock, in milliseconds since 1970.
        chance: Chooses which records come twice.
    """
    written = Written()
    for file in sorted(log.iterdir()):
        topic, _, partition = file.name.rpartition("-")
        by_hour: dict[str, list[tuple[int, str]]] = {}
        for offset, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
            moment = _moment(json.loads(line))
            if moment is None:  # behavior.on.null.values=ignore
                written.without_content += 1
                continue
            by_hour.setdefault(hours[bisect_right(ends, moment)], []).append((offset, line))
        for hour, records in by_hour.items():
            folder = (
                source / "topics" / topic / "year={}/month={}/day={}/hour={}".format(*hour.replace("T", "-").split("-"))
            )
            folder.mkdir(parents=True, exist_ok=True)
            pieces = [records[start : start + _RECORDS] for start in range(0, len(records), _RECORDS)]
            start = chance.randrange(len(records))
            pieces.append(records[start : start + chance.randrange(1, _RECORDS)])  # as after a restart of the sink
            written.again += 1
            for piece in pieces:
                name = f"{topic}+{partition}+{piece[0][0]:010}.json.gz"
                content = "".join(f"{line}\n" for _, line in piece).encode()
                if (folder / name).exists() and len(gzip.decompress((folder / name).read_bytes())) > len(content):
                    continue  # a sink would have written it whole
                (folder / name).write_bytes(gzip.compress(content))
            written.files += len([*folder.iterdir()])
            written.records += len(records)
    return written


def _moment(record: Any) -> int | None:
    """Return when the database made a change, in milliseconds since 1970; None for a record without content."""
    if record is None or ("schema" in record and record["payload"] is None):
        return None
    event = record.get("payload", record)
    if "__source_ts_ms" in event:
        moment: int = event["__source_ts_ms"]
    else:
        moment = event["source"]["ts_ms"]
    return moment
