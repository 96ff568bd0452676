"""What changed in a Delta table between two versions, from its log alone: the commits, and files with their rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.log_entries import columns_of, identity_at


@dataclass(frozen=True)
class Changes:
    """Commits of a table after one version and up to another.

    versions: the versions that changed rows. metadata: the metadata of each of these commits. files: the files with the
    changed rows, as version, kind (``cdc`` for the change data feed, ``add``, ``remove``) and name; a version with a
    change data feed has no other files here. bytes: of these files. unknown: why the changes cannot be determined; None
    if they can.
    """

    versions: tuple[int, ...] = ()
    metadata: tuple[Mapping[str, Any], ...] = ()
    files: tuple[tuple[int, str, str], ...] = ()
    bytes: int = 0
    unknown: str | None = None

    def __bool__(self) -> bool:
        return bool(self.versions or self.unknown)

    def by_kind(self) -> Iterator[tuple[int, str, list[str]]]:
        """Yield the names of the files of each version and kind."""
        for version, kind in dict.fromkeys((version, kind) for version, kind, _ in self.files):
            yield version, kind, [name for *commit, name in self.files if commit == [version, kind]]


def changes(folder: Place, since: int, newest: int, identity: str | None = None) -> Changes:
    """List the commits of a table after ``since`` up to ``newest`` that changed rows, rather than only moved them.

    identity: of the commit at ``since``, if recorded; if another commit is there now, the changes are unknown.
    """
    if newest < since:
        return Changes(unknown=f"it is at version {newest}, before {since}")
    if identity is not None and (current_identity := identity_at(folder, since)) != identity:
        why = "is not in its log any more" if current_identity is None else "is another commit: its folder went back"
        return Changes(unknown=f"its version {since} {why}")
    versions: list[int] = []
    commits: list[Mapping[str, Any]] = []
    changed_files: list[tuple[int, str, str]] = []
    read = 0
    for version in range(since + 1, newest + 1):
        try:
            actions = actions_of(folder, version)
        except FileNotFoundError:
            return Changes(unknown=f"its log no longer has version {version}")
        metadata = [content for kind, content in actions if kind == "metaData"]
        if metadata and not _keeps_columns(folder, version, metadata[-1]):
            return Changes(unknown=f"its columns changed with version {version}")
        row_changes = [(kind, file) for kind, file in actions if kind in {"add", "remove"} and file.get("dataChange")]
        feed = [(kind, file) for kind, file in actions if kind == "cdc"] or row_changes
        if any(file.get("deletionVector") for kind, file in feed if kind != "cdc"):
            return Changes(unknown=f"version {version} marks rows as deleted without a change feed")
        if feed:
            if not files.all_there(data_file(folder, file["path"]) for _, file in feed):
                return Changes(unknown=f"upkeep has removed what version {version} changed")
            versions.append(version)
            commits.append(_commit_metadata(actions))
            changed_files += [(version, kind, file["path"]) for kind, file in feed]
            read += sum(file.get("size") or 0 for _, file in feed)
    return Changes(tuple(versions), tuple(commits), tuple(changed_files), read)


def _commit_metadata(actions: Sequence[tuple[str, dict[str, Any]]]) -> Mapping[str, Any]:
    """Return the metadata of a commit; empty if it is not a JSON object, as in commits of other writers."""
    text = next((content.get("userMetadata") for kind, content in actions if kind == "commitInfo"), None)
    try:
        known = json.loads(text or "{}")
    except (TypeError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _keeps_columns(folder: Place, version: int, metadata: dict[str, Any]) -> bool:
    """Check whether a commit that changed a table's metadata kept its columns."""
    former = columns_at(folder, version - 1)
    return former is not None and former == columns_of(metadata["schemaString"], metadata["partitionColumns"])


def columns_at(folder: Place, version: int) -> Any:
    """Return the columns of the table in ``folder`` at a version, as ``columns_of`` does; None if it cannot be read."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        delta = DeltaTable(str(folder), version=version, storage_options=files.storage_options(folder))
    except (DeltaError, OSError, OverflowError):
        return None
    return columns_of(delta.schema().to_json(), delta.metadata().partition_columns)


def actions_of(folder: Place, version: int) -> list[tuple[str, dict[str, Any]]]:
    """Read the actions of one commit of the table in ``folder``, as pairs of kind and content.

    Raises:
        FileNotFoundError: The log has no such commit.
    """
    text = (folder / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
    lines = text.split("\n")  # not splitlines: a key in the statistics may hold U+2028
    return [next(iter(json.loads(line).items())) for line in lines if line]


def data_file(folder: Place, file: str) -> Place:
    """Return the place of a file that the log of the table in ``folder`` names."""
    return folder / unquote(file)
