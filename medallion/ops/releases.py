"""Releases: the one row that makes an hour visible, naming the version of every table."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError, UsageError, advice
from medallion.hours import hour_or_snapshot
from medallion.storage import fence, files
from medallion.storage.change_feed import data_file
from medallion.storage.foreign_commits import ChangedByOthers, rewritten, stamp
from medallion.storage.lake import Lake, state_of, table_id
from medallion.storage.named_versions import NamedVersion, open_current
from medallion.storage.remembered import remembered

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


@dataclass(frozen=True)
class Release:
    """One published state of the lake. hour is None for the first, made of the snapshot alone.

    versions: of each table. table_ids: which Delta table that is. commits: the identity of the commit that made the
    version. row_counts: how many rows that version has, as its check counted them. The last three are empty for a
    release from before they were recorded.
    fence: the fencing number of the writer lease it was published under; None for one of before there were any.
    newest_hour: the newest hour that this release or one before it made visible: after a roll back, later than hour.
    restores: the release that a roll back published once more; None where there was no roll back.
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
    newest_hour: str | None = None
    restores: int | None = None
    commits: Mapping[str, str] = field(default_factory=dict)

    @property
    def origin(self) -> int:
        """The release that first had these contents: this one, but after a roll back."""
        return self.release_id if self.restores is None else self.restores

    def version_of(self, table: str) -> NamedVersion | None:
        """The version of ``table`` that is published; None where the release does not have the table."""
        if table not in self.versions:
            return None
        table_id, commit = self.table_ids.get(table), self.commits.get(table)
        return NamedVersion(table, self.versions[table], table_id, self.published_at, commit)


@dataclass(frozen=True)
class Contents:
    """What a release names.

    Args:
        versions: Version by table.
        table_ids: The Delta table that each is a version of; looked up if not given.
        row_counts: Rows by table, as their check counted them.
        commits: The identity of the commit that made each version, where it is known.
        restores: The release that they were the contents of; None where none was.
    """

    versions: Mapping[str, int]
    table_ids: Mapping[str, str] | None = None
    row_counts: Mapping[str, int] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)
    restores: int | None = None


def read_all(lake: Lake) -> list[Release]:
    """Every release that is kept, oldest first."""
    delta = lake.open(lake.releases)
    return [] if delta is None else _read(lake, state_of(delta).actions["path"])


def latest(lake: Lake) -> Release | None:
    """The newest release; None when nothing has been published."""
    return remembered(lake.at(lake.releases), "newest release", lambda: read_newest(lake)[1])


def was_published(lake: Lake, hour: str) -> bool:
    """Whether readers have had ``hour``, also where its release was rolled back and is not kept any more."""
    newest = latest(lake)
    if newest is None or newest.newest_hour is None:
        return newest is not None and any(release.hour == hour for release in read_all(lake))
    return hour <= newest.newest_hour


def require_release(lake: Lake, release_id: int | None) -> Release:
    """The release of that number, the newest for None. Raises UsageError, naming those that are, when there is none."""
    newest = latest(lake)
    if newest is None:
        raise UsageError(f"lake {lake.root} has no release yet: run medallion load")
    if release_id is None or release_id == newest.release_id:
        return newest
    for release in _read(lake, _files_with(lake.opened(lake.releases), release_id)):
        if release.release_id == release_id:
            return release
    raise UsageError(f"there is no release {release_id}: choose {read_all(lake)[0].release_id} to {newest.release_id}")


def require_earlier(lake: Lake, newest: Release, number: int | None) -> Release:
    """The release to restore in place of ``newest``: of ``number``, else the one before what readers have.

    Raises UsageError when readers have it already, or it is not kept.
    """
    if number is None and newest.origin <= read_all(lake)[0].release_id:
        raise UsageError(f"readers have release {newest.origin}, and no earlier one is kept: nothing to roll back to")
    earlier = require_release(lake, newest.origin - 1 if number is None else number)
    if earlier.origin == newest.origin:
        raise UsageError(f"readers have release {newest.origin} already: nothing to roll back")
    return earlier


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
        ChangedByOthers: Somebody else has changed releases.
        LeaseLost: This process is not the lake's writer any more, by its lease or by the number in the newest release.
    """
    from deltalake.exceptions import DeltaError

    delta, newest = read_newest(lake)
    if delta is not None and (reason := rewritten("releases", lake.at(lake.releases), delta)):
        raise ChangedByOthers(f"nothing is published: {reason}")
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
        max(filter(None, (hour, _newest_hour(lake, newest))), default=None),
        contents.restores,
        dict(sorted(contents.commits.items())),
    )
    overtaken = MedallionError(
        f"another run published while {hour_or_snapshot(hour)} was on its way: nothing of run {run_id} is"
        f" published; {advice.see_status()}"
    )
    if _number(newest) != _number(after):
        raise overtaken
    try:
        _append(lake, delta, release)
    except DeltaError as error:
        if _number(latest(lake)) != _number(newest):
            raise overtaken from None
        path = lake.releases
        raise MedallionError(f"release {release.release_id} could not be written to {path}: {error}") from error
    return release


def _number(release: Release | None) -> int | None:
    return release.release_id if release else None


def _newest_hour(lake: Lake, newest: Release | None) -> str | None:
    """The newest hour that was ever published; from those that are kept, where the newest release does not say."""
    if newest is None or newest.newest_hour is not None:
        return newest.newest_hour if newest else None
    return max((release.hour for release in read_all(lake) if release.hour), default=None)


def _confirmed_fence(newest: Release | None, run_id: str) -> int | None:
    """Return the number of this process's lease. Raises LeaseLost where a newer holder has published."""
    number = fence.confirm()
    if newest is not None and newest.fence is not None and (number or 0) < newest.fence:
        raise fence.LeaseLost(
            f"release {newest.release_id} was published under writer lease {newest.fence}, this run has"
            f" {number or 'none'}: nothing of run {run_id} is published; {advice.see_status()}"
        )
    return number


def _append(lake: Lake, delta: "DeltaTable | None", release: Release) -> None:
    from deltalake import CommitProperties, write_deltalake

    path = lake.releases
    rows = releases_as_arrow([vars(release) | {name: list(getattr(release, name).items()) for name in _MAPS}])
    if delta is None:
        write_deltalake(path, rows, mode="error", name="releases", storage_options=lake.storage_options)
    else:
        stamps = {name: str(number) for name, number in stamp(delta).items()}
        once = CommitProperties(max_commit_retries=0, custom_metadata=stamps)
        write_deltalake(delta, rows, mode="append", schema_mode="merge", commit_properties=once)


def current_ids(lake: Lake, tables: Iterable[str]) -> dict[str, str]:
    """The ids of those of ``tables`` that have been written."""
    opened = ((table, lake.open(lake.path(table))) for table in tables)
    return {table: table_id(delta) for table, delta in opened if delta is not None}


def read_newest(lake: Lake) -> "tuple[DeltaTable | None, Release | None]":
    """The table of releases, and the newest one: of however many there are, one file is read."""
    delta = lake.open(lake.releases)
    retained = [] if delta is None else _read(lake, _files_with(delta, None))
    return delta, retained[-1] if retained else None


def _files_with(delta: "DeltaTable", release_id: int | None) -> list[str]:
    """The data files that may have the release of that number, the newest for None, by the statistics in the log."""
    actions = state_of(delta).actions
    paths: list[str] = actions["path"]
    smallest, largest = (actions.get(f"{end}.release_id") or [None] * len(paths) for end in ("min", "max"))
    if None in smallest or None in largest:
        return paths
    wanted = max(largest, default=0) if release_id is None else release_id
    ranges = zip(paths, smallest, largest, strict=True)
    return [path for path, first, last in ranges if first <= wanted <= last]


def _read(lake: Lake, paths: Iterable[str]) -> list[Release]:
    """The releases in these data files, oldest first."""
    import pyarrow.dataset as ds

    places = [files.in_arrow(data_file(lake.at(lake.releases), path)) for path in paths]
    if not places:
        return []
    schema = releases_as_arrow([]).schema  # a column that a file does not have yet is null
    table = ds.dataset([str(name) for name, _ in places], schema, filesystem=places[0][1]).to_table()
    rows: list[dict[str, Any]] = table.sort_by("release_id").to_pylist()
    return [Release(**(row | {name: dict(row[name] or ()) for name in _MAPS})) for row in rows]


_MAPS = ("versions", "table_ids", "row_counts", "commits")


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
            ("newest_hour", pa.string()),
            ("restores", pa.int64()),
            ("commits", pa.map_(pa.string(), pa.string())),
        ]
    )
    return pa.Table.from_pylist(rows, schema=schema)
