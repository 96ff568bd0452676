"""The log of a part's state beside the tables: differences that add up to the state.

Each commit adds what one change adds to each group. A part has a folder of its own; as in tables, the metadata of its
commits names the input versions that they were computed from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.model.refresh_method import RefreshMethod
from medallion.refresh.commits import Columns, commit_metadata
from medallion.refresh.plan import MAX_UNCHANGED_COMMITS, FullRecompute, Target, former_state
from medallion.spark.collect import collect
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.storage import files
from medallion.storage.damage import proven_damage
from medallion.storage.delta_writes import append_rows, properties
from medallion.storage.foreign_commits import stamped
from medallion.storage.lake import TableState, state_of
from medallion.storage.table_features import features_for_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

MAX_GROUPS = 500_000  # most groups that one change may touch, and that this process writes


@dataclass(frozen=True)
class StateLog:
    """The log of one part of a table that is refreshed. inputs: the state of each input that the part reads."""

    target: Target
    name: str
    inputs: Mapping[str, TableState]

    @property
    def path(self) -> str:
        """The path of the log."""
        return self.target.lake.aggregate_state_path(self.target.table.name, self.name)

    def former(self) -> tuple[TableState, Mapping[str, Any]]:
        """Open the log and read the metadata of its newest commit.

        Raises FullRecompute if changes cannot be added to it.
        """
        state, origin = former_state(self.target.lake, self.path, self.target.table, self.inputs)
        if names := features_for_spark(state.delta):
            raise FullRecompute(f"somebody switched on {names}")
        if origin.get("proof") != self.target.proof.fingerprint:
            raise FullRecompute("its definition, or the columns of an input, have changed")
        return state, origin

    def append(self, delta: "DeltaTable", difference: "pa.Table | None", replaces: Columns) -> TableState:
        """Append a difference; None to record only the input versions, because nothing changed."""
        from deltalake import write_deltalake

        commit = properties(self.metadata(replaces), upon=delta)
        if difference is None:
            append_rows(delta, None, commit)
        else:
            write_deltalake(delta, difference, mode="append", commit_properties=commit)
        return state_of(delta)

    def lags(self, origin: Mapping[str, Any]) -> bool:
        """Whether the input versions in ``origin`` are so old that looking for changes has become costly."""
        known = origin["inputs"]
        return any(state.version - known[name] > MAX_UNCHANGED_COMMITS for name, state in self.inputs.items())

    def write(self, rows: "DataFrame") -> TableState:
        """Replace the whole log by ``rows``; this process writes them if they are few."""
        import pyarrow as pa
        from deltalake import write_deltalake

        former = self._open_or_remove()
        if (data := collect(rows, MAX_GROUPS)) is not None:
            write_deltalake(
                self.path,
                data.cast(pa.schema([field.with_nullable(True) for field in data.schema])),
                mode="overwrite",
                schema_mode="overwrite",
                configuration=TABLE_PROPERTIES,
                commit_properties=properties(self.metadata(None), upon=former),
                storage_options=self.target.lake.storage_options,
            )
        else:
            (
                rows.write.format("delta")
                .mode("overwrite")
                .options(**TABLE_PROPERTIES)
                .option("overwriteSchema", "true")
                .option("userMetadata", stamped(self.metadata(None), former))
                .save(self.path)
            )
        return state_of(self.target.lake.opened(self.path))

    def _open_or_remove(self) -> "DeltaTable | None":
        """Open the log if it exists. Remove it if it is damaged or has unsupported features: no release names it."""
        folder = self.target.lake.at(self.path)
        try:
            delta = self.target.lake.open(self.path)
            if delta is None or not features_for_spark(delta):
                return delta
        except MedallionError:
            if proven_damage(folder) is None:
                raise
        files.remove_tree(folder)
        self.target.run.sessions.forget_logs()
        return None

    def metadata(self, replaces: Columns) -> str:
        """Return the JSON of the metadata of a commit."""
        target, method = self.target, RefreshMethod.INCREMENTAL_AGGREGATE
        return commit_metadata(target.table, target.run, self.inputs, method, replaces)
