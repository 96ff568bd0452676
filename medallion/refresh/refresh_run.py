"""What the refreshes of a run share, and what each one reports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from medallion.model.proven import Proof
from medallion.model.refresh_method import RefreshMethod, StateWork
from medallion.model.registry import Registry
from medallion.model.table import Table
from medallion.refresh.cost import RecentCosts
from medallion.refresh.inputs import versions_of
from medallion.spark.passed_rows import PassedRows
from medallion.spark.sessions import Sessions
from medallion.storage.keyed_rows import KeyedRows
from medallion.storage.lake import Lake, TableState


@dataclass(frozen=True, kw_only=True)
class Written:
    """The outcome of a refresh of one table.

    rows_in: rows of the inputs, or the key values of an upsert. rows_out, bytes_out: of the table or, for an upsert, of
    the commit. version: of the table after the refresh. inputs: their versions.
    strategy: what was really done, ``full`` or ``incremental``. method: how. note: the reason, where one is needed.
    warning: what a person should know; usually None. changed: the size of the change that the refresh followed, in
    values of the key or bytes. state_work: what the refresh did to build incremental state before it could use it.
    full_failed: whether a full recompute was chosen first, and failed.
    """

    rows_in: int
    rows_out: int
    bytes_out: int
    version: int
    inputs: Mapping[str, int]
    strategy: str = "full"
    method: RefreshMethod = RefreshMethod.FULL_RECOMPUTE
    note: str | None = None
    warning: str | None = None
    changed: int | None = None
    state_work: StateWork | None = None
    full_failed: bool = False

    @classmethod
    def whole(cls, state: TableState, inputs: Mapping[str, TableState], **more: Any) -> "Written":
        """Return the outcome for a table of which a refresh has computed all rows; more: other fields.

        rows_in counts all rows of its ``inputs``, even if the refresh read only some of them.
        """
        return cls(
            rows_in=sum(input_state.rows for input_state in inputs.values()),
            rows_out=state.rows,
            bytes_out=state.bytes,
            version=state.version,
            inputs=versions_of(inputs),
            **more,
        )

    @classmethod
    def unchanged(cls, version: int, inputs: Mapping[str, TableState], note: str) -> "Written":
        """Return the outcome for a table whose rows stay the same; note: why."""
        return cls(
            rows_in=0,
            rows_out=0,
            bytes_out=0,
            version=version,
            inputs=versions_of(inputs),
            strategy="incremental",
            method=RefreshMethod.UNCHANGED,
            note=note,
        )


@dataclass(frozen=True)
class RefreshRun:
    """What the refreshes of a layer in one run share; their commits carry hour, run_id and strategy.

    costs: how long refreshes of tables took before this run. strategy: ``full`` or ``incremental``. tables: the
    declarations of all tables. proof_of: returns what is proven of a table. refreshed: the tables that are refreshed
    together. judges_cost: whether a table may be recomputed because that costs less. rows: the rows by key that several
    of them need. passed: passes rows to Spark.
    """

    lake: Lake
    sessions: Sessions
    costs: RecentCosts
    hour: str | None
    run_id: str
    strategy: str
    tables: Registry
    proof_of: Callable[[Table], Proof]
    refreshed: tuple[Table, ...] = ()
    judges_cost: bool = True
    rows: KeyedRows = field(default_factory=KeyedRows)
    passed: PassedRows = field(default_factory=PassedRows)

    def columns_read(self, name: str) -> frozenset[str]:
        """Return the columns of a table that the refreshed tables use, so that its rows are read once for all."""
        readers = (self.proof_of(table) for table in self.refreshed if name in table.inputs)
        columns = (columns for proof in readers for columns in proof.columns_by_part(name))
        return frozenset(column for names in columns for column, *_ in names)
