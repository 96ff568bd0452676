"""Which hours Bronze has, which the source lists, and so which one is next in line."""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from spark_jobs.core.errors import HourNotAvailable, MedallionError, UsageError
from spark_jobs.core.hours import ONE_HOUR, parse_hour
from spark_jobs.core.lake import Lake
from spark_jobs.core.registry import Registry
from spark_jobs.source.root import Landed


@dataclass(frozen=True)
class Manifest:
    """What landed for one hour: each feed's file by topic, with size and checksum."""

    hour: str
    source: str
    files: Mapping[str, Landed]


def write_manifest(lake: Lake, manifest: Manifest) -> None:
    """Record ``manifest`` whole or not at all."""
    path = lake.landing / "_hours" / f"{manifest.hour}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.write_text(json.dumps(asdict(manifest), indent=1) + "\n")
    partial.replace(path)


def read_manifest(lake: Lake, hour: str) -> Manifest | None:
    """What landed for ``hour``; None when nothing has."""
    path = lake.landing / "_hours" / f"{hour}.json"
    if not path.exists():
        return None
    content = json.loads(path.read_text())
    return Manifest(hour, content["source"], {topic: Landed(**file) for topic, file in content["files"].items()})


def applied_hour(lake: Lake, tables: Registry) -> str | None:
    """The last hour that every Bronze table has; None when one of them holds the snapshot alone.

    Raises UsageError when the lake has not been loaded.
    """
    if missing := [feed.name for feed in tables.feeds if lake.version(feed.name) is None]:
        raise UsageError(f"lake {lake.root} has no {', '.join(missing)}: run medallion load first")
    hours = [lake.applied_hour(feed.name) for feed in tables.feeds]
    return None if None in hours else min(hour for hour in hours if hour)


def in_line(wanted: str | None, applied: str | None, listed: Collection[str], landed: bool) -> str:
    """The hour to refresh: ``wanted`` when its turn has come, the next in line when None.

    applied: the last hour Bronze has. listed: the hours the source has. landed: whether ``wanted`` was taken
    from the source at some time. An hour that Bronze has already is returned as it is: applying it again changes
    nothing. Raises HourNotAvailable for an hour that the source does not have, MedallionError for a gap and for
    an hour that turned up after a later one had been applied.
    """
    pending = sorted(hour for hour in listed if applied is None or hour > applied)
    if wanted is None:
        if not pending:
            raise HourNotAvailable(f"the source has no hour after {applied}: nothing to do until one arrives")
        return pending[0]
    if applied is not None and wanted <= applied:
        if wanted in listed and not landed:
            raise MedallionError(
                f"hour {wanted} turned up after {applied} had been applied, and was not applied itself:"
                " load the lake anew from the snapshot to take it in its turn"
            )
        return wanted
    if wanted not in listed:
        if parse_hour(wanted) + ONE_HOUR > datetime.now(UTC):
            raise HourNotAvailable(f"hour {wanted} has not ended yet: refresh it once it lies in the past")
        span = f"it lists {min(listed)} to {max(listed)}" if listed else "it lists none"
        raise HourNotAvailable(f"the source has no change file for hour {wanted}: {span}")
    if gap := [hour for hour in pending if hour < wanted]:
        raise MedallionError(
            f"hour {wanted} is not next in line: {', '.join(gap[:5])}{' and more' if gap[5:] else ''} must come first;"
            f" run medallion refresh --from-hour {gap[0]} --to-hour {wanted}"
        )
    return wanted
