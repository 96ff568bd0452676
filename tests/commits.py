"""What commits of a Delta log carry."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from medallion.storage import fence
from medallion.storage.foreign_commits import provenance


def fencing_number(commit: Mapping[str, Any]) -> int | None:
    """The fencing number of a commit, whoever wrote it: delta-rs or Spark; None where it carries none."""
    number = commit.get(fence.KEY) or json.loads(commit.get("userMetadata") or "{}").get(fence.KEY)
    return None if number is None else int(number)


def origin_of(delta: DeltaTable) -> Mapping[str, Any]:
    """The metadata of the newest commit of ours in a table on this disk."""
    return provenance(Path(delta.table_uri.removeprefix("file://")), delta.version()).origin
