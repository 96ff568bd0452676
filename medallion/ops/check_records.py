"""The record of the newest check of each layer, what it read and how it ended: ``<lake>/ops/checks/<layer>.json``.

Publishing relies on these records rather than on the event log, which may fail without stopping a refresh.
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
    """A table as a check read it. rows: their number. commit: its identity; None if its log entry is gone."""

    version: int
    table_id: str
    rows: int
    commit: str | None = None


@dataclass(frozen=True)
class Proof:
    """The result of an expectation that passed. whole_at: when it last checked whole tables, in ISO 8601.

    failed, values: for an expectation with a tolerance, the number of failed rows and of all rows that it checks.
    """

    whole_at: str
    failed: int | None = None
    values: int | None = None


@dataclass(frozen=True)
class Failure:
    """A critical expectation that failed. origin: the change files and lines of its failed rows, if known."""

    table: str
    expectation: str
    observed: str
    origin: str = ""


# What expectations measured: by table, by meaning of the expectation, by hour (empty for the snapshot).
History = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True)
class CheckRecord:
    """One check of one layer. tables: every table that was read, including tables of other layers for comparison.

    status: ``succeeded``, ``warned`` or ``failed``. report: its page. proofs: what passed, by table and by fingerprint
    of the expectation; the next check of changed rows continues from there. history: the measures with which the next
    check compares. failures: what failed. suspect: the first hour that may have made the check fail, the earliest since
    the layer last passed.
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

    @property
    def identity(self) -> str:
        """What tells this check from every other one."""
        return f"{self.layer} {self.run_id} {self.attempt} {self.checked_at.isoformat()}"


def write_check_record(lake: Lake, record: CheckRecord) -> None:
    """Replace the record of a layer atomically."""
    fence.require()
    files.write_json(_place(lake, record.layer), asdict(record) | {"checked_at": record.checked_at.isoformat()})


def read_check_record(lake: Lake, layer: str) -> CheckRecord | None:
    """Return the newest check of a layer; None if there is none, or if its record is damaged until the next check."""
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
    """Return the newest check of each layer."""
    return {layer: read_check_record(lake, layer) for layer in layers}


def _place(lake: Lake, layer: str) -> Place:
    return lake.at(lake.ops("checks"), f"{layer}.json")
