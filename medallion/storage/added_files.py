"""Read the complete ``add`` actions of data files from a log: delta-rs returns only their statistics.

Entries are read from the newest back to the newest checkpoint, until every file is found.
"""

import json
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from medallion.storage.change_feed import data_file
from medallion.storage.damage import checkpoints_in
from medallion.storage.deletion_vectors import vector_files
from medallion.storage.files import Place, in_arrow
from medallion.storage.log_entries import Action, read_entry

if TYPE_CHECKING:
    from deltalake import DeltaTable

_ADDED = re.compile(r'\s*\{\s*"add"\s*:\s*\{\s*"path"\s*:\s*"([^"\\]*)"')


def add_actions(folder: Place, version: int, paths: Collection[str]) -> dict[str, Action]:
    """Return the newest ``add`` of each of ``paths``, which are files of the table in ``folder`` at ``version``.

    Files without a row count are left out, and files that cannot be found, such as those in a checkpoint of another
    form.
    """
    actions = _find(folder, version, paths)
    return {path: added for path, added in actions.items() if "numRecords" in json.loads(added.get("stats") or "{}")}


def lost_file(delta: "DeltaTable", folder: Place) -> str | None:
    """Return the name of a data file or deletion vector that an opened table needs and that is gone; None if none is.

    Raises OSError or MedallionError if that cannot be found out, which proves nothing.
    """
    import pyarrow as pa

    paths = pa.table(delta.get_add_actions(flatten=True))["path"].to_pylist()
    needed = [*paths, *sorted(vector_files(_find(folder, delta.version(), paths).values()))]
    return next((name for name in needed if not data_file(folder, name).exists()), None)


def _find(folder: Place, version: int, paths: Collection[str]) -> dict[str, Action]:
    wanted, actions = set(paths), dict[str, Action]()
    checkpoints = checkpoints_in({place.name: place for place in (folder / "_delta_log").iterdir()})
    base = max((number for number in checkpoints if number <= version), default=-1)
    for number in range(version, base, -1):
        try:
            lines = read_entry(folder, number).lines
        except FileNotFoundError:
            return actions
        for line in lines:
            match = _ADDED.match(line)
            if match and match[1] in wanted:
                actions[match[1]] = json.loads(line)["add"]
        wanted -= actions.keys()
        if not wanted:
            return actions
    for place in checkpoints.get(base, ()):
        if place.name.endswith(".parquet"):
            actions |= _in_checkpoint(place, wanted)
    return actions


def _in_checkpoint(place: Place, paths: Collection[str]) -> dict[str, Action]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    name, at = in_arrow(place)
    with pq.ParquetFile(name, filesystem=at) as file:
        added = file.read(["add"])["add"].combine_chunks()
    added = added.filter(pc.is_in(pc.struct_field(added, "path"), pa.array(sorted(paths), pa.string())))
    return {action["path"]: _without_nulls(action) for action in added.to_pylist()}


def _without_nulls(action: dict[str, Any]) -> Action:
    known = {name: value for name, value in action.items() if value is not None and not name.endswith("_parsed")}
    if "deletionVector" in known:
        known["deletionVector"] = {name: v for name, v in known["deletionVector"].items() if v is not None}
    return known | {name: dict(known[name]) for name in ("partitionValues", "tags") if name in known}
