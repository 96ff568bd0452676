"""Write commits into a Delta log without delta-rs, which cannot write some of them, such as deletion vectors.

The entry of the next version is created atomically and only if it does not exist: by a hard link on a disk, by a
conditional put in a bucket. So only one of two writers makes the commit, and a crash leaves only files that no version
names.
"""

import json
import time
from collections.abc import Iterable, Mapping
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.storage import fence
from medallion.storage.files import Place, create_whole
from medallion.storage.log_entries import Action

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

ENGINE = f"medallion-{version_of('medallion')}"
# An hour opens a table about five times. Each log entry since the last checkpoint adds half a millisecond to an
# opening; writing a checkpoint takes twenty milliseconds.
CHECKPOINTS = {"delta.checkpointInterval": "10"}  # a property of each table that this engine creates
_CHECKPOINT_INTERVAL = 100  # the default of delta-rs, for a table without this property
Actions = Iterable[tuple[str, Action]]


def commit_actions(
    delta: "DeltaTable",
    folder: Place,
    actions: Actions,
    properties: "CommitProperties",
    operation: str,
    metrics: Mapping[str, int],
) -> None:
    """Commit ``actions``, pairs of kind and content, as the version after that of ``delta``.

    ``delta`` is updated to the new version. properties: metadata and ledger entries, as ``delta_writes.properties``
    returns them. operation, metrics: for the history of the table.

    Raises:
        LeaseLost: This process is no longer the lake's writer.
        MedallionError: Another writer has committed that version in the meantime.
    """
    now, version = time.time_ns() // 1_000_000, delta.version() + 1
    info: dict[str, Any] = {
        "timestamp": now,
        "operation": operation,
        "operationParameters": {},
        "operationMetrics": {name: str(count) for name, count in metrics.items()},
        "isBlindAppend": False,
        "engineInfo": ENGINE,
        **(properties.custom_metadata or {}),
    }
    ledger = [
        ("txn", {"appId": entry.app_id, "version": entry.version, "lastUpdated": now})
        for entry in properties.app_transactions or ()
    ]
    lines = [json.dumps({kind: content}) for kind, content in (("commitInfo", info), *ledger, *actions)]
    fence.require()
    if not create_whole(folder / "_delta_log" / f"{version:020}.json", "\n".join(lines).encode() + b"\n"):
        raise MedallionError(
            f"another writer has committed version {version} of {folder} meanwhile; nothing was written: run this again"
        )
    delta.update_incremental()
    if version % int(delta.metadata().configuration.get("delta.checkpointInterval", _CHECKPOINT_INTERVAL)) == 0:
        delta.create_checkpoint()


def metadata_with(delta: "DeltaTable", name: str, value: str) -> Action:
    """Return the ``metaData`` action of a table with one property set."""
    metadata = delta.metadata()
    described = {"name": metadata.name, "description": metadata.description, "createdTime": metadata.created_time}
    return {
        "id": str(metadata.id),
        **{key: text for key, text in described.items() if text is not None},
        "format": {"provider": "parquet", "options": {}},
        "schemaString": delta.schema().to_json(),
        "partitionColumns": [*metadata.partition_columns],
        "configuration": {**metadata.configuration, name: value},
    }


def removal(added: Action, *, data_change: bool = True) -> Action:
    """Return the ``remove`` of a file for its ``add``, including its deletion vector, which is part of its identity."""
    fields = {name: added[name] for name in ("path", "partitionValues", "size", "deletionVector") if name in added}
    moment = time.time_ns() // 1_000_000
    return fields | {"deletionTimestamp": moment, "dataChange": data_change, "extendedFileMetadata": True}
