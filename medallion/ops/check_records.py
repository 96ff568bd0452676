"""What the newest check of each layer looked at, and how it ended: ``<lake>/ops/checks/<layer>.json``.

Publishing relies on these records and not on the event log, which may fail without stopping a refresh.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from medallion.storage import fence, files
from medallion.storage.files import Place
from medallion.storage.lake import Lake


@dataclass(frozen=True)
class CheckedTable:
    """A table as a check read it. rows: how many it had. commit: its identity; None where it is not kept."""

    version: int
    table_id: str
    rows: int
    commit: str | None = None


@dataclass(frozen=True)
class Proof:
    """That an expectation held. whole_at: when it was last judged on whole tables, in ISO 8601.

    failed, values: of an expectation with a tolerance, the rows that fail it and all that it judges.
    """

    whole_at: str
    failed: int | None = None
    values: int | None = None


@dataclass(frozen=True)
class Failure:
    """A critical expectation that failed. origin: the change files and lines that its rows came with, where known."""

    table: str
    expectation: str
    observed: str
    origin: str = ""


# What expectations measured, by table, meaning and hour; the hour of the snapshot is empty.
History = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True)
class CheckRecord:
    """One check of one layer. tables: every table that was read, also those of other layers that it was compared with.

    status: ``succeeded``, ``warned`` or ``failed``. report: its page. proofs: what held, by table and by fingerprint of
    the expectation: the next check of changed rows goes on from there. history: what the next compares with. failures:
    what failed. suspect: the first hour that may have made it fail, the earliest since the layer last passed.
    """

    layer: str
    hour: str | None
    run_id: str
    attempt: int
    checked_at: datetime
    status: str
    report: str
    tables: Mapping[str, CheckedTable]
    proofs: Mapping[str, Mapping[str, Proof]] = field(default_factory=dict)
    history: History = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    suspect: str | None = None


def write_check_record(lake: Lake, record: CheckRecord) -> None:
    """Replace the record of a layer, whole or not at all."""
    fence.require()
    files.write_json(_place(lake, record.layer), asdict(record) | {"checked_at": record.checked_at.isoformat()})


def read_check_record(lake: Lake, layer: str) -> CheckRecord | None:
    """The newest check of a layer; None where there is none, or its record is damaged: the next check replaces it."""
    return files.read_record_if_whole(_place(lake, layer), _check_record, "whole tables are checked again")


def _check_record(content: dict[str, Any]) -> CheckRecord:
    tables = {name: CheckedTable(**table) for name, table in content["tables"].items()}
    checked_at = datetime.fromisoformat(content["checked_at"]).astimezone(UTC)
    proofs = {
        name: {expectation: Proof(**proof) for expectation, proof in proven.items()}
        for name, proven in content.get("proofs", {}).items()
    }
    failures = tuple(Failure(**failure) for failure in content.get("failures", ()))
    values = {"tables": tables, "checked_at": checked_at, "proofs": proofs, "failures": failures}
    return CheckRecord(**(content | values))


def read_check_records(lake: Lake, layers: Iterable[str]) -> dict[str, CheckRecord | None]:
    """The newest check of each layer."""
    return {layer: read_check_record(lake, layer) for layer in layers}


def _place(lake: Lake, layer: str) -> Place:
    return lake.at(lake.ops("checks"), f"{layer}.json")
