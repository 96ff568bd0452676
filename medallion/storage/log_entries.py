"""One entry of a Delta log, whose actions are parsed when they are needed."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from medallion.storage.files import Place

LEDGER = "medallion"  # the application id under which Bronze records the last hour applied
Action = dict[str, Any]


@dataclass(frozen=True)
class LogEntry:
    """The entry of one version. lines: of JSON, one action each."""

    version: int
    lines: tuple[str, ...]

    def actions(self, kind: str) -> list[Action]:
        """Return the actions of one kind."""
        begins = re.compile(rf'\s*\{{\s*"{kind}"\s*:').match
        return [json.loads(line)[kind] for line in self.lines if begins(line)]

    @cached_property
    def info(self) -> Action:
        """The commit information; empty if there is none."""
        return next(iter(self.actions("commitInfo")), {})

    @cached_property
    def metadata(self) -> Action:
        """The commit metadata (``userMetadata``); empty if it is not a JSON object."""
        try:
            content = json.loads(self.info.get("userMetadata") or "{}")
        except (ValueError, TypeError):
            return {}
        return content if isinstance(content, dict) else {}

    @property
    def identity(self) -> str:
        """The identity of the commit: a folder restored from a backup may have another commit as the same version."""
        return sha256("\n".join(self.lines).encode()).hexdigest()[:16]

    @property
    def operation(self) -> str:
        """The operation, as its writer names it."""
        return str(self.info.get("operation", ""))

    @property
    def columns(self) -> Any:
        """The columns and partitions that the commit sets; None if it does not set any."""
        metadata = self.actions("metaData")
        return columns_of(metadata[-1]["schemaString"], metadata[-1].get("partitionColumns")) if metadata else None


def read_entry(folder: Place, version: int) -> LogEntry:
    """Read the entry of one version of the table in ``folder``.

    Raises FileNotFoundError if the log has no such entry, ValueError if it is not text.
    """
    text = (folder / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
    return LogEntry(version, tuple(line for line in text.split("\n") if line))  # a key may hold U+2028


def identity_at(folder: Place, version: int) -> str | None:
    """Return the identity of the commit that the table in ``folder`` has as ``version``; None if its entry is gone."""
    try:
        return read_entry(folder, version).identity
    except (FileNotFoundError, ValueError):
        return None


def columns_of(schema: str, partitions: Any) -> Any:
    """Return the columns of a schema in JSON, without their metadata, and the partition columns."""
    return _without_notes(json.loads(schema)), [*(partitions or ())]


def _without_notes(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _without_notes(value) for name, value in part.items() if name != "metadata"}
    return [_without_notes(value) for value in part] if isinstance(part, list) else part
