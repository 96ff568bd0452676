"""What is known before an incremental refresh of a table, and when the table is recomputed instead."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.model.proven import Proof
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Table
from medallion.refresh.commits import Columns, commit_metadata, is_written_by_difference, overwrite
from medallion.refresh.inputs import ids_of
from medallion.refresh.refresh_run import RefreshRun, Written
from medallion.spark import delta_commits
from medallion.storage.change_feed import Changes
from medallion.storage.delta_writes import append_rows, properties
from medallion.storage.foreign_commits import Provenance, provenance, stamped
from medallion.storage.lake import Lake, TableState, state_of
from medallion.storage.table_features import features_for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_CHANGED_SHARE = 0.2  # of an input's bytes: if more changed, recomputing is cheaper
MAX_UNCHANGED_COMMITS = 16  # commits of an input without a changed row; after more, its current version is recorded
MIN_INPUT_BYTES = 1_000_000  # a smaller input counts as one of this size


class FullRecompute(Exception):
    """The table must be recomputed; the message says why."""


class NoneExisted(FullRecompute):
    """The table does not exist yet."""


class FullByChoice(FullRecompute):
    """The table is recomputed because that is known to cost less, or to learn what it takes."""


class ChangedSince(FullRecompute):
    """Somebody else changed the table, or its aggregate state, since its last refresh."""

    def __init__(self, lineage: Provenance) -> None:
        super().__init__(f"somebody else changed it: {lineage.describe()}")


class ProofViolated(FullRecompute):
    """Rows contradict the proof of the refresh method.

    Nothing was written; the table is recomputed with this as a warning.
    """


@dataclass(frozen=True)
class Target:
    """One table that is refreshed in a run, with the current states of its inputs."""

    run: RefreshRun
    table: Table
    inputs: Mapping[str, TableState]

    @property
    def lake(self) -> Lake:
        """The lake of its run."""
        return self.run.lake

    @property
    def input_bytes(self) -> dict[str, int]:
        """The bytes of each input."""
        return {name: state.bytes for name, state in self.inputs.items()}

    @property
    def proof(self) -> Proof:
        """What is proven of the table."""
        return self.run.proof_of(self.table)

    @property
    def spark(self) -> "SparkSession":
        """The session that computes its rows."""
        return self.run.sessions.full


@dataclass(frozen=True)
class Refresh(Target):
    """One incremental refresh of one table.

    former: the table before the refresh. origin: the metadata of its newest commit. changes: what is new in each input
    since the versions that the former rows were computed from.
    """

    former: TableState
    origin: Mapping[str, Any]
    changes: Mapping[str, Changes]

    @property
    def spark(self) -> "SparkSession":
        """The session for small jobs."""
        return self.run.sessions.small

    @property
    def path(self) -> str:
        """The path of the table."""
        return self.lake.path(self.table.name)

    @property
    def changed_bytes(self) -> int:
        """The bytes of what is new in the inputs."""
        return sum(change.bytes for change in self.changes.values())

    def commit_metadata(self, method: RefreshMethod, replaces: Columns, *, clustered: bool = False) -> str:
        """Return the JSON of the metadata of its commit."""
        return commit_metadata(self.table, self.run, self.inputs, method, replaces, clustered=clustered)

    @property
    def is_clustered(self) -> bool:
        """Whether the files of the table are clustered by key."""
        return bool(self.origin.get("clustered", False))

    def record_input_versions(self) -> int:
        """Record in an empty commit which input versions the table is current with, and return its version."""
        commit = self.commit_metadata(RefreshMethod.UNCHANGED, (), clustered=self.is_clustered)
        delta = self.former.delta
        if features_for_spark(delta):
            delta_commits.append(self.spark, self.path, delta, stamped(commit, delta))
        else:
            append_rows(delta, None, properties(commit, upon=delta))
        return self.former.delta.version()

    def keep_unchanged(self) -> int:
        """Return the version of a table whose inputs have not changed.

        If it took many log entries to see that, an empty commit records the versions of the inputs, so an idle hour
        reads a bounded part of each log.
        """
        known = self.origin["inputs"]
        if any(state.version - known[name] > MAX_UNCHANGED_COMMITS for name, state in self.inputs.items()):
            return self.record_input_versions()
        return self.former.delta.version()

    def require_cheap(self, size: int, of: int, change: str) -> None:
        """Raise FullByChoice if a full recompute is known to cost less than following a change of this ``size``.

        Also where that is not known, but is to be found out. Only tables with the policy ``auto`` are judged by cost.
        of: the size of what changed, in the same unit. change: the change in words, for the reason.
        """
        if not is_judged_by_cost(self):
            return
        costs, share = self.run.costs.of(self.table.name), size / max(of, 1)
        may_retry = is_written_by_difference(self.former)
        tried = costs.reason_to_try_full(size, change, share, may_retry=may_retry)
        if reason := tried or costs.reason_to_recompute(size, change, share):
            raise FullByChoice(reason)

    def overwrite(self, rows: "DataFrame", method: RefreshMethod, note: str | None = None) -> Written:
        """Replace all rows of the table by ``rows``."""
        state = overwrite(self.lake, self.table, rows, self.former, partial(self.commit_metadata, method))
        return Written.whole(state, self.inputs, strategy="incremental", method=method, note=note)


def is_judged_by_cost(target: Target) -> bool:
    """Return whether a table may be recomputed because that costs less than following a change."""
    return target.table.refresh == "auto" and target.run.judges_cost


def former_state(
    lake: Lake, path: str, table: Table, inputs: Mapping[str, TableState]
) -> tuple[TableState, Mapping[str, Any]]:
    """Return the table, or the aggregate state, at ``path``, and the metadata of its newest commit.

    Raises FullRecompute if it does not exist or cannot be opened, somebody else changed it, its query has changed, or
    an input was rebuilt.
    """
    try:
        delta = lake.open(path)
    except MedallionError as damaged:
        raise FullRecompute(str(damaged)) from None
    if delta is None:
        raise NoneExisted("none existed")
    lineage = provenance(lake.at(path), delta.version())
    if lineage.changes:
        raise ChangedSince(lineage)
    if not (origin := lineage.origin):
        raise NoneExisted("none existed")
    if origin.get("query") != table.fingerprint:
        raise FullRecompute("its query has changed")
    known = origin.get("tables", {})
    if other := [name for name, number in ids_of(inputs).items() if known.get(name) != number]:
        raise FullRecompute(f"{other[0]} was rebuilt")
    try:
        return state_of(delta), origin
    except MedallionError as damaged:
        raise FullRecompute(str(damaged)) from None


def require_followable(changes: Mapping[str, Changes], inputs: Mapping[str, TableState]) -> None:
    """Raise FullRecompute if a change is unknown or too large to follow."""
    for name, change in changes.items():
        if change.unknown:
            raise FullRecompute(f"what changed in {name} is not known: {change.unknown}")
    if reason := oversized(changes, inputs):
        raise FullRecompute(reason)


def oversized(changes: Mapping[str, Changes], inputs: Mapping[str, TableState]) -> str | None:
    """Return an input that has changed too much to follow, if there is one."""
    for name, change in changes.items():
        if change and change.bytes > MAX_CHANGED_SHARE * max(inputs[name].bytes, MIN_INPUT_BYTES):
            share = change.bytes / max(inputs[name].bytes, 1)
            if share > 0.5:  # an updated row counts twice, before and after
                return f"most of {name} was rewritten since its last refresh"
            return f"{share:.0%} of {name} changed since its last refresh, more than {MAX_CHANGED_SHARE:.0%}"
    return None
