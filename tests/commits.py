"""What commits of a Delta log carry."""

import json
from collections.abc import Mapping
from typing import Any

from medallion.storage import fence


def fencing_number(commit: Mapping[str, Any]) -> int | None:
    """The fencing number of a commit, whoever wrote it: delta-rs or Spark; None where it carries none."""
    number = commit.get(fence.KEY) or json.loads(commit.get("userMetadata") or "{}").get(fence.KEY)
    return None if number is None else int(number)
