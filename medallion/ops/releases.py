"""Releases: the one row that makes an hour visible, naming the version of every table."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError, UsageError
from medallion.hours import hour_or_snapshot
from medallion.storage import fence, files
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


@dataclass(frozen=True)
class Release:
    """One published state of the lake. hour is None for the first, made of the snapshot alone.

    fence: the fencing number of the writer lease it was published under; None for one of before there were any.
    """

    release_id: int
    hour: str | None
    run_id: str
    strategy: str
    published_at: datetime
    versions: Mapping[str, int]
    fence: int | None = None


def published(lake: Lake) -> list[Release]:
    """Every release that is kept, oldest first."""
    return _read(lake)[1]


def latest(lake: Lake) -> Release | None:
    """The newest release; None when nothing has been published."""
    kept = published(lake)
    return kept[-1] if kept else None


def find(lake: Lake, release_id: int | None) -> Release:
    """The release of that number, the newest for None. Raises UsageError, naming those that are, when there is none."""
    kept = published(lake)
    if not kept:
        raise UsageError(f"lake {lake.root} has no release yet: run medallion load")
    if release_id is None:
        return kept[-1]
    for release in kept:
        if release.release_id == release_id:
            return release
    raise UsageError(f"there is no release {release_id}: choose {kept[0].release_id} to {kept[-1].release_id}")


def publish(
    lake: Lake,
    *,
    after: Release | None,
    hour: str | None,
    run_id: str,
    strategy: str,
    versions: Mapping[str, int],
) -> Release:
    """Make ``versions`` the newest release, in one commit that must follow on ``after``.

    after: the newest release as it was before ``versions`` were read. Raises MedallionError when another has been
    published since, by however slow a margin: the commit is a compare-and-swap on the table's Delta log. Raises
    LeaseLost when this process is not the lake's writer any more, by its lease or by the number in the newest release.
    """
    from deltalake import CommitProperties, write_deltalake
    from deltalake.exceptions import DeltaError

    delta, kept = _read(lake)
    newest = kept[-1] if kept else None
    number_of_lease = fence.confirmed()
    if newest is not None and newest.fence is not None and (number_of_lease or 0) < newest.fence:
        raise fence.LeaseLost(
            f"release {newest.release_id} was published under writer lease {newest.fence}, this run has"
            f" {number_of_lease or 'none'}: nothing of run {run_id} is published; run medallion status to see what is"
        )
    number = 1 if newest is None else newest.release_id + 1
    release = Release(
        number, hour, run_id, strategy, datetime.now(UTC), dict(sorted(versions.items())), number_of_lease
    )
    row = vars(release) | {"versions": list(release.versions.items())}
    overtaken = MedallionError(
        f"another run published while {hour_or_snapshot(hour)} was on its way: nothing of run {run_id} is"
        " published; run medallion status to see what is"
    )
    if (newest.release_id if newest else None) != (after.release_id if after else None):
        raise overtaken
    path = lake.ops("releases")
    try:
        if delta is None:
            options = files.storage_options(path)
            write_deltalake(path, _arrow([row]), mode="error", name="releases", storage_options=options)
        else:
            once = CommitProperties(max_commit_retries=0)
            write_deltalake(delta, _arrow([row]), mode="append", schema_mode="merge", commit_properties=once)
    except DeltaError as error:
        if len(published(lake)) > len(kept):
            raise overtaken from None
        raise MedallionError(f"release {number} could not be written to {path}: {error}") from error
    return release


def _read(lake: Lake) -> "tuple[DeltaTable | None, list[Release]]":
    delta = lake.open(lake.ops("releases"))
    if delta is None:
        return None, []
    rows: list[dict[str, Any]] = delta.to_pyarrow_table().sort_by("release_id").to_pylist()
    return delta, [Release(**(row | {"versions": dict(row["versions"])})) for row in rows]


def _arrow(rows: list[dict[str, Any]]) -> "pa.Table":
    import pyarrow as pa

    schema = pa.schema(
        [
            ("release_id", pa.int64()),
            ("hour", pa.string()),
            ("run_id", pa.string()),
            ("strategy", pa.string()),
            ("published_at", pa.timestamp("us", tz="UTC")),
            ("versions", pa.map_(pa.string(), pa.int64())),
            ("fence", pa.int64()),
        ]
    )
    return pa.Table.from_pylist(rows, schema=schema)
