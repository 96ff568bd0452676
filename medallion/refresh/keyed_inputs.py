"""The input rows that rows with some values of the key follow from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medallion.model.methods import ByKey
from medallion.model.plan import Column
from medallion.refresh.needed_inputs import NeededInputs
from medallion.refresh.plan import Target
from medallion.spark.delta_reads import MAX_SINGLE_TASK_BYTES, no_rows, read_table
from medallion.sql_text import backquoted, spark_text_literal
from medallion.storage import delta_writes
from medallion.storage.delta_writes import literal_list
from medallion.storage.file_filter import files_with
from medallion.storage.lake import TableState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Frames = dict[str, Any]
States = Mapping[str, TableState]


@dataclass(frozen=True)
class KeyedInputs:
    """Inputs of a table, restricted to some values of the key.

    target: the table that is refreshed. spark: the session of frames that Spark reads. by: the key, and the paths to
    it. keyed: by input that has the key, its column. sides: the states of the inputs, such as before and after a
    change. values: of the key, sorted, null last. part: the kept relation that is computed; empty for the whole query.
    changed: returns the values of the key in all changed rows, of which other tables of the run may need others.
    """

    target: Target
    spark: "SparkSession"
    by: ByKey
    keyed: Mapping[str, str]
    sides: Sequence[States]
    values: Sequence[Any]
    part: str = ""
    changed: Callable[[], Iterable[Any]] = tuple

    def frames(self) -> list[Frames] | None:
        """Return, for each side, a frame for each input; None if no row follows from the inputs on any side.

        All frames belong to one session, ``session_of`` them, which need not be that of the caller.
        Inputs from which few rows are needed are read in this process, as Spark would read all of their rows.
        """
        needed = NeededInputs(self.target, self.by, self.keyed, self.sides, tuple(self.values), self.part, self.changed)
        read = needed.read()
        if not needed.values:
            return None
        spark = self._session(read)
        known: dict[tuple[str, int], DataFrame] = {}
        frames: list[Frames] = []
        for place, side in enumerate(self.sides):
            for name, state in side.items():
                if (name, state.version) not in known:
                    rows = read[name]
                    known[name, state.version] = (
                        self._by_spark(name, state, needed.values)
                        if rows is None
                        else self._frame(spark, name, rows[place])
                    )
            frames.append({name: known[name, state.version] for name, state in side.items()})
        return frames

    def _session(self, read: "Mapping[str, list[pa.Table] | None]") -> "SparkSession":
        """Return the session for the frames: that for a single task if few rows of every input were read here.

        What Spark writes itself stays in the session that the caller chose for it.
        """
        if self.spark is not self.target.spark:
            return self.spark
        sizes = [
            MAX_SINGLE_TASK_BYTES if sides is None else max(rows.nbytes for rows in sides) for sides in read.values()
        ]
        return self.target.run.sessions.single if sum(sizes) < MAX_SINGLE_TASK_BYTES else self.spark

    def _frame(self, spark: "SparkSession", name: str, rows: "pa.Table") -> "DataFrame":
        """Return a frame of rows with all columns of the input; those that the query does not use are null."""
        used = [column for column, *_ in self.target.proof.columns_of(name, self.part)]
        frame = self.target.run.passed.frame(spark, rows.select(used))
        every = self.target.proof.inputs[name]
        if len(used) == len(every):
            return frame
        # The query may name a column that it does not use, as in a common table expression.
        values = (backquoted(c) if c in used else f"CAST(NULL AS {kind}) AS {backquoted(c)}" for c, kind, _ in every)
        return frame.selectExpr(*values)

    def _by_spark(self, name: str, state: TableState, values: Sequence[Any]) -> "DataFrame":
        path, columns = self.target.lake.path(name), self.target.proof.inputs[name]
        if name not in self.keyed:
            return read_table(self.spark, path, state, columns=columns)
        return _rows_with(self.spark, path, state, (self.keyed[name], values), columns)


def session_of(frames: Frames) -> "SparkSession":
    """Return the session that the frames belong to."""
    session: SparkSession = next(iter(frames.values())).sparkSession
    return session


def frames_without_rows(spark: "SparkSession", inputs: Mapping[str, tuple[Column, ...]]) -> Frames:
    """Return a frame without rows for each input."""
    from pyspark.sql.types import StructType

    schemas = {
        name: StructType.fromDDL(", ".join(f"{backquoted(column)} {kind}" for column, kind, _ in columns))
        for name, columns in inputs.items()
    }
    return {name: no_rows(spark, schema) for name, schema in schemas.items()}


def _rows_with(
    spark: "SparkSession", path: str, state: TableState, key: tuple[str, Sequence[Any]], columns: tuple[Column, ...]
) -> "DataFrame":
    """Return the rows of a table with some values of a column.

    Args:
        spark: The session.
        path: The path of the table.
        state: The state of the table.
        key: The column, and its values, sorted, null last.
        columns: The columns to return.
    """
    import pyarrow as pa
    from pyspark.sql import functions as F

    column, values = key
    rows = read_table(spark, path, state, files_with(column, values), columns)
    known = [value for value in values if value is not None]
    if len(values) <= delta_writes.MAX_LISTED_KEYS:
        name = backquoted(column)
        conditions = [f"{name} IN ({literal_list(known, spark_text_literal)})"] if known else []
        return rows.where(" OR ".join([*conditions, *([f"{name} IS NULL"] if None in values else [])]))
    schema = pa.schema(state.delta.schema().to_arrow())
    few = F.broadcast(spark.createDataFrame(pa.table({column: pa.array(known, schema.field(column).type)})))
    return rows.join(few, column, "left_semi").select(*(name for name, _, _ in columns))
