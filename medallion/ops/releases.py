"""Releases: the one row that makes an hour visible, naming the version of every table."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError, UsageError
from medallion.hours import hour_or_snapshot
from medallion.storage import fence
from medallion.storage.lake import Lake, state_of, table_id
from medallion.storage.named_versions import NamedVersion, open_current

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


@dataclass(frozen=True)
class Release:
    """One published state of the lake. hour is None for the first, made of the snapshot alone.

    versions: of each table. table_ids: which Delta table that is. row_counts: how many rows that version has, as its
    check counted them. Both are empty for a release from before they were recorded.
    fence: the fencing number of the writer lease it was published under; None for one of before there were any.
    """

    release_id: int
    hour: str | None
    run_id: str
    strategy: str
    published_at: datetime
    versions: Mapping[str, int]
    fence: int | None = None
    table_ids: Mapping[str, str] = field(default_factory=dict)
    row_counts: Mapping[str, int] = field(default_factory=dict)

    def version_of(self, table: str) -> NamedVersion | None:
        """The version of ``table`` that is published; None where the release does not have the table."""
        if table not in self.versions:
            return None
        return NamedVersion(table, self.versions[table], self.table_ids.get(table), self.published_at)


@dataclass(frozen=True)
class Contents:
    """What a release names.

    Args:
        versions: Version by table.
        table_ids: The Delta table that each is a version of; looked up if not given.
        row_counts: Rows by table, as their check counted them.
    """

    versions: Mapping[str, int]
    table_ids: Mapping[str, str] | None = None
    row_counts: Mapping[str, int] = field(default_factory=dict)


def read_all(lake: Lake) -> list[Release]:
    """Every release that is kept, oldest first."""
    return read_releases(lake)[1]


def latest(lake: Lake) -> Release | None:
    """The newest release; None when nothing has been published."""
    retained = read_all(lake)
    return retained[-1] if retained else None


def require_release(lake: Lake, release_id: int | None) -> Release:
    """The release of that number, the newest for None. Raises UsageError, naming those that are, when there is none."""
    retained = read_all(lake)
    if not retained:
        raise UsageError(f"lake {lake.root} has no release yet: run medallion load")
    if release_id is None:
        return retained[-1]
    for release in retained:
        if release.release_id == release_id:
            return release
    raise UsageError(f"there is no release {release_id}: choose {retained[0].release_id} to {retained[-1].release_id}")


def row_counts_of(lake: Lake, release: Release, tables: Iterable[str]) -> dict[str, int]:
    """The rows of those of ``tables`` that ``release`` names, without those that cannot be read any more.

    From the release itself; of one from before they were recorded, from the logs of its tables.
    """
    counts = {table: release.row_counts[table] for table in tables if table in release.row_counts}
    for version in filter(None, (release.version_of(table) for table in tables if table not in counts)):
        with suppress(MedallionError):
            counts[version.table] = state_of(open_current(lake, version)).rows
    return counts


def publish(
    lake: Lake, *, after: Release | None, hour: str | None, run_id: str, strategy: str, contents: Contents
) -> Release:
    """Make ``contents`` the newest release, in one commit that must follow on ``after``.

    Args:
        lake: The lake.
        after: The newest release as it was before the versions of ``contents`` were read; None before the first.
        hour: The hour that becomes visible; None for the snapshot alone.
        run_id: The run that publishes.
        strategy: How Silver and Gold were refreshed.
        contents: The version of each table.

    Raises:
        MedallionError: Another run has published since ``after``, by however slow a margin: the commit is a
            compare-and-swap on the table's Delta log.
        LeaseLost: This process is not the lake's writer any more, by its lease or by the number in the newest release.
    """
    from deltalake.exceptions import DeltaError

    delta, retained = read_releases(lake)
    newest = retained[-1] if retained else None
    table_ids = current_ids(lake, contents.versions) if contents.table_ids is None else contents.table_ids
    release = Release(
        1 if newest is None else newest.release_id + 1,
        hour,
        run_id,
        strategy,
        datetime.now(UTC),
        dict(sorted(contents.versions.items())),
        _confirmed_fence(newest, run_id),
        dict(sorted(table_ids.items())),
        dict(sorted(contents.row_counts.items())),
    )
    overtaken = MedallionError(
        f"another run published while {hour_or_snapshot(hour)} was on its way: nothing of run {run_id} is"
        " published; run medallion status to see what is"
    )
    if (newest.release_id if newest else None) != (after.release_id if after else None):
        raise overtaken
    try:
        _append(lake, delta, release)
    except DeltaError as error:
        if len(read_all(lake)) > len(retained):
            raise overtaken from None
        path = lake.releases
        raise MedallionError(f"release {release.release_id} could not be written to {path}: {error}") from error
    return release


def _confirmed_fence(newest: Release | None, run_id: str) -> int | None:
    """Return the number of this process's lease. Raises LeaseLost where a newer holder has published."""
    number = fence.confirm()
    if newest is not None and newest.fence is not None and (number or 0) < newest.fence:
        raise fence.LeaseLost(
            f"release {newest.release_id} was published under writer lease {newest.fence}, this run has"
            f" {number or 'none'}: nothing of run {run_id} is published; run medallion status to see what is"
        )
    return number


def _append(lake: Lake, delta: "DeltaTable | None", release: Release) -> None:
    from deltalake import CommitProperties, write_deltalake

    path = lake.releases
    rows = releases_as_arrow([vars(release) | {name: list(getattr(release, name).items()) for name in _MAPS}])
    if delta is None:
        write_deltalake(path, rows, mode="error", name="releases", storage_options=lake.storage_options)
    else:
        once = CommitProperties(max_commit_retries=0)
        write_deltalake(delta, rows, mode="append", schema_mode="merge", commit_properties=once)


def current_ids(lake: Lake, tables: Iterable[str]) -> dict[str, str]:
    """The ids of those of ``tables`` that have been written."""
    opened = ((table, lake.open(lake.path(table))) for table in tables)
    return {table: table_id(delta) for table, delta in opened if delta is not None}


def read_releases(lake: Lake) -> "tuple[DeltaTable | None, list[Release]]":
    delta = lake.open(lake.releases)
    if delta is None:
        return None, []
    rows: list[dict[str, Any]] = delta.to_pyarrow_table().sort_by("release_id").to_pylist()
    return delta, [Release(**(row | {name: dict(row.get(name) or ()) for name in _MAPS})) for row in rows]


_MAPS = ("versions", "table_ids", "row_counts")


def releases_as_arrow(rows: list[dict[str, Any]]) -> "pa.Table":
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
            ("table_ids", pa.map_(pa.string(), pa.string())),
            ("row_counts", pa.map_(pa.string(), pa.int64())),
        ]
    )
    return pa.Table.from_pylist(rows, schema=schema)
