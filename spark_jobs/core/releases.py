"""Releases: the one row that makes an hour visible, naming the version of every table."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from spark_jobs.core.lake import Lake


@dataclass(frozen=True)
class Release:
    """One published state of the lake. hour is None for the first, made of the snapshot alone."""

    release_id: int
    hour: str | None
    run_id: str
    strategy: str
    published_at: datetime
    versions: Mapping[str, int]


def latest(lake: Lake) -> Release | None:
    """The newest release; None when nothing has been published."""
    delta = lake.open(lake.ops("releases"))
    if delta is None:
        return None
    rows: list[dict[str, Any]] = delta.to_pyarrow_table().sort_by("release_id").to_pylist()
    newest = rows[-1]
    return Release(**(newest | {"versions": dict(newest["versions"])}))


def publish(lake: Lake, *, hour: str | None, run_id: str, strategy: str, versions: Mapping[str, int]) -> Release:
    """Make ``versions`` the newest release, in one commit."""
    import pyarrow as pa
    from deltalake import write_deltalake

    schema = pa.schema(
        [
            ("release_id", pa.int64()),
            ("hour", pa.string()),
            ("run_id", pa.string()),
            ("strategy", pa.string()),
            ("published_at", pa.timestamp("us", tz="UTC")),
            ("versions", pa.map_(pa.string(), pa.int64())),
        ]
    )
    last = latest(lake)
    number = 1 if last is None else last.release_id + 1
    release = Release(number, hour, run_id, strategy, datetime.now(UTC), dict(sorted(versions.items())))
    row = vars(release) | {"versions": list(release.versions.items())}
    write_deltalake(lake.ops("releases"), pa.Table.from_pylist([row], schema=schema), mode="append", name="releases")
    return release
