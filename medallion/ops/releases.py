"""Releases: one row makes an hour visible to readers, with the version of every table."""

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
from medallion.storage.log_writer import CHECKPOINTS
from medallion.storage.named_versions import NamedVersion, open_current
from medallion.storage.remembered import remembered

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


@dataclass(frozen=True)
class Release:
    """One published state of the lake. hour: None for the first release, of the snapshot.

    versions: by table. table_ids: by table, the id of its Delta table. commits: by table, the identity of the commit
    that made the version. row_counts: by table, the rows of the version as its check counted them. These last three are
    empty in a release from before they were recorded.
    fence: the fencing number of the writer lease under which it was published; None from before there were leases.
    newest_hour: the newest hour that this release or an earlier one made visible; after a rollback, later than hour.
    restores: the release that a rollback published again; None without a rollback.
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
        """The release that first had these contents: this one, unless it is a rollback."""
        return self.release_id if self.restores is None else self.restores

    def version_of(self, table: str) -> NamedVersion | None:
        """Return the published version of ``table``; None if the release does not have the table."""
        if table not in self.versions:
            return None
        table_id, commit = self.table_ids.get(table), self.commits.get(table)
        return NamedVersion(table, self.versions[table], table_id, self.published_at, commit)


@dataclass(frozen=True)
class Contents:
    """The contents of a release.

    Args:
        versions: Version by table.
        table_ids: The id of each Delta table; None to read them.
        row_counts: Rows by table, as their check counted them.
        commits: The identity of the commit that made each version, if known.
        restores: The release whose contents these are, for a rollback; else None.
    """

    versions: Mapping[str, int]
    table_ids: Mapping[str, str] | None = None
    row_counts: Mapping[str, int] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)
    restores: int | None = None


def read_all(lake: Lake) -> list[Release]:
    """Return every release that is kept, oldest first."""
    delta = lake.open(lake.releases)
    return [] if delta is None else _read(lake, state_of(delta).actions["path"])


def latest(lake: Lake) -> Release | None:
    """Return the newest release; None if nothing has been published."""
    return remembered(lake.at(lake.releases), "newest release", lambda: read_newest(lake)[1])


def was_published(lake: Lake, hour: str) -> bool:
    """Whether ``hour`` was ever published, even if its release was rolled back or is no longer kept."""
    newest = latest(lake)
    if newest is None or newest.newest_hour is None:
        return newest is not None and any(release.hour == hour for release in read_all(lake))
    return hour <= newest.newest_hour


def require_release(lake: Lake, release_id: int | None) -> Release:
    """Return the release with that number; None for the newest. Raises UsageError, with the known ones, if missing."""
    newest = latest(lake)
    if newest is None:
        raise UsageError(f"lake {lake.root} has no release yet: run medallion load")
    if release_id is None or release_id == newest.release_id:
        return newest
    for release in _read(lake, _files_with(lake.opened(lake.releases), release_id)):
        if release.release_id == release_id:
            return release
    raise UsageError(f"there is no release {release_id}: choose {_spans(r.release_id for r in read_all(lake))}")


def require_earlier(lake: Lake, newest: Release, number: int | None) -> Release:
    """Return the release that a rollback from ``newest`` restores: ``number``, else the one before what readers have.

    Raises UsageError if readers have it already, or it is not kept.
    """
    if number is None and newest.origin <= read_all(lake)[0].release_id:
        raise UsageError(f"readers have release {newest.origin}, and no earlier one is kept: nothing to roll back to")
    earlier = require_release(lake, newest.origin - 1 if number is None else number)
    if earlier.origin == newest.origin:
        raise UsageError(f"readers have release {newest.origin} already: nothing to roll back")
    return earlier


def row_counts_of(lake: Lake, release: Release, tables: Iterable[str]) -> dict[str, int]:
    """Return the row counts of ``tables`` in ``release``, without tables that it lacks or that cannot be read any more.

    They come from the release itself, or from the logs of its tables if it is from before they were recorded.
    """
    counts = {table: release.row_counts[table] for table in tables if table in release.row_counts}
    for version in filter(None, (release.version_of(table) for table in tables if table not in counts)):
        with suppress(MedallionError):
            counts[version.table] = state_of(open_current(lake, version)).rows
    return counts


def publish(
    lake: Lake, *, after: Release | None, hour: str | None, run_id: str, strategy: str, contents: Contents
) -> Release:
    """Publish ``contents`` as the newest release, in one commit that must follow ``after`` directly.

    Args:
        lake: The lake.
        after: The newest release before the versions of ``contents`` were read; None before the first release.
        hour: The hour that becomes visible; None if there is only the snapshot.
        run_id: The run that publishes.
        strategy: How Silver and Gold were refreshed.
        contents: The version of each table.

    Raises:
        MedallionError: Another run has published since ``after``, even if only a moment ago: the commit is a
            compare-and-swap on the table's Delta log.
        ChangedByOthers: Somebody else has changed the table of releases.
        LeaseLost: This process is no longer the lake's writer, by its lease or by the number in the newest release.
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


def _spans(numbers: Iterable[int]) -> str:
    """Return ascending numbers as spans, such as ``3, 7 to 9``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number])
    return ", ".join(" to ".join(map(str, span)) for span in spans)


def _number(release: Release | None) -> int | None:
    return release.release_id if release else None


def _newest_hour(lake: Lake, newest: Release | None) -> str | None:
    """Return the newest hour that was ever published: from the newest release, or from all kept ones if it lacks it."""
    if newest is None or newest.newest_hour is not None:
        return newest.newest_hour if newest else None
    return max((release.hour for release in read_all(lake) if release.hour), default=None)


def _confirmed_fence(newest: Release | None, run_id: str) -> int | None:
    """Return the number of this process's lease. Raises LeaseLost if a later holder has published."""
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
        options = lake.storage_options
        write_deltalake(path, rows, mode="error", name="releases", configuration=CHECKPOINTS, storage_options=options)
    else:
        stamps = {name: str(number) for name, number in stamp(delta).items()}
        once = CommitProperties(max_commit_retries=0, custom_metadata=stamps)
        write_deltalake(delta, rows, mode="append", schema_mode="merge", commit_properties=once)


def current_ids(lake: Lake, tables: Iterable[str]) -> dict[str, str]:
    """Return the Delta ids of ``tables``, without tables that have not been written."""
    opened = ((table, lake.open(lake.path(table))) for table in tables)
    return {table: table_id(delta) for table, delta in opened if delta is not None}


def read_newest(lake: Lake) -> "tuple[DeltaTable | None, Release | None]":
    """Return the table of releases, and the newest release; only the file with the newest one is read."""
    delta = lake.open(lake.releases)
    retained = [] if delta is None else _read(lake, _files_with(delta, None))
    return delta, retained[-1] if retained else None


def _files_with(delta: "DeltaTable", release_id: int | None) -> list[str]:
    """Return the data files that may have the release with that number, or the newest for None, by their statistics."""
    actions = state_of(delta).actions
    paths: list[str] = actions["path"]
    smallest, largest = (actions.get(f"{end}.release_id") or [None] * len(paths) for end in ("min", "max"))
    if None in smallest or None in largest:
        return paths
    wanted = max(largest, default=0) if release_id is None else release_id
    ranges = zip(paths, smallest, largest, strict=True)
    return [path for path, first, last in ranges if first <= wanted <= last]


def _read(lake: Lake, paths: Iterable[str]) -> list[Release]:
    """Return the releases in these data files, oldest first."""
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
