"""The input rows that rows with some values of the key follow from.

An input that has the key is restricted to these values. Of any other input only those rows can matter that its path to
the key connects with restricted rows: the proof of the key says that a change of such a row leads to no other value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medallion.model.methods import ByKey
from medallion.model.plan import Column
from medallion.refresh.plan import Target
from medallion.spark.collect import quoted
from medallion.spark.delta_reads import read_table
from medallion.storage import delta_writes
from medallion.storage.delta_writes import literal_list
from medallion.storage.file_filter import files_with
from medallion.storage.keyed_rows import Wanted
from medallion.storage.lake import TableState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Frames = dict[str, Any]
States = Mapping[str, TableState]


@dataclass(frozen=True)
class KeyedInputs:
    """Inputs of a table, restricted to some values of the key.

    target: the table that is refreshed. by: the key, and the paths to it. keyed: by input that has the key, its column.
    sides: the states of the inputs, such as before and after a change. values: of the key, sorted, null last.
    """

    target: Target
    spark: "SparkSession"
    by: ByKey
    keyed: Mapping[str, str]
    sides: Sequence[States]
    values: Sequence[Any]

    def frames(self) -> list[Frames]:
        """Return, for each side, a frame for each input.

        Inputs from which few rows are needed are read in this process, as Spark would read all of their rows.
        """
        read: dict[str, list[pa.Table] | None] = {}
        known: dict[tuple[str, int], DataFrame] = {}
        for name in self.sides[0]:
            self._read(name, read)
        frames: list[Frames] = []
        for place, side in enumerate(self.sides):
            for name, state in side.items():
                if (name, state.version) not in known:
                    rows = read[name]
                    known[name, state.version] = (
                        self._by_spark(name, state) if rows is None else self._frame(name, rows[place])
                    )
            frames.append({name: known[name, state.version] for name, state in side.items()})
        return frames

    def _read(self, name: str, read: "dict[str, list[pa.Table] | None]") -> "list[pa.Table] | None":
        """Return the rows of an input on each side; None if Spark has to read them."""
        if name in read:
            return read[name]
        read[name] = None
        if (wanted := self._wanted(name, read)) is not None:
            states = [side[name] for side in self.sides]
            own = {column for column, *_ in self.target.proof.columns_of(name)}
            paths = {way.as_column for via in self.by.via.values() for way in via.ways if way.through == name}
            columns = sorted(own | paths | self.target.run.columns_read(name))
            folder = self.target.lake.folder(name)
            read[name] = self.target.run.rows.read(folder, states, columns, wanted)
        return read[name]

    def _wanted(self, name: str, read: "dict[str, list[pa.Table] | None]") -> Wanted | None:
        """Return the values by which an input is restricted; None if all of its rows may matter."""
        if name in self.keyed:
            return ((self.keyed[name], tuple(self.values)),)
        if name not in self.by.via:
            return None
        wanted = []
        for way in self.by.via[name].ways:
            if (rows := self._read(way.through, read)) is None:
                return None
            found = {value for side in rows for value in side[way.as_column].unique().to_pylist()}
            wanted.append((way.column, tuple(sorted(found - {None}))))  # a null is equal to nothing
        return tuple(wanted)

    def _frame(self, name: str, rows: "pa.Table") -> "DataFrame":
        """Return a frame of rows with all columns of the input; those that the query does not use are null."""
        used = [column for column, *_ in self.target.proof.columns_of(name)]
        frame = self.target.run.passed.frame(self.spark, rows.select(used))
        every = self.target.proof.inputs[name]
        if len(used) == len(every):
            return frame
        # The query may name a column that it does not use, as in a common table expression.
        values = (quoted(c) if c in used else f"CAST(NULL AS {kind}) AS {quoted(c)}" for c, kind, _ in every)
        return frame.selectExpr(*values)

    def _by_spark(self, name: str, state: TableState) -> "DataFrame":
        path, columns = self.target.lake.path(name), self.target.proof.inputs[name]
        if name not in self.keyed:
            return read_table(self.spark, path, state, columns=columns)
        return _rows_with(self.spark, path, state, (self.keyed[name], self.values), columns)


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
        conditions = [f"`{column}` IN ({literal_list(known)})"] if known else []
        return rows.where(" OR ".join([*conditions, *([f"`{column}` IS NULL"] if None in values else [])]))
    schema = pa.schema(state.delta.schema().to_arrow())
    few = F.broadcast(spark.createDataFrame(pa.table({column: pa.array(known, schema.field(column).type)})))
    return rows.join(few, column, "left_semi").select(*(name for name, _, _ in columns))
