"""Find the key values that a change of the inputs touches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from medallion.model.methods import ByKey
from medallion.model.needs import Needs
from medallion.model.registry import Registry
from medallion.refresh.plan import FullRecompute
from medallion.spark.delta_reads import read_table
from medallion.storage import delta_writes
from medallion.storage.change_feed import Changes
from medallion.storage.changed_values import changed_values
from medallion.storage.lake import Lake, TableState
from medallion.storage.live_rows import distinct_values
from medallion.storage.table_features import features_for_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MAX_KEYS, MAX_KEY_SHARE = 20_000, 0.2  # most key values that one refresh follows, or this share of all of them
MAX_LEADING_VALUES = 500_000  # most values of a column on a path to the key, or of the key


def count_keys(
    tables: Registry, restricted: Mapping[str, str], inputs: Mapping[str, TableState], own: Sequence[int] = ()
) -> int:
    """Return about how many values of a key there are.

    That is how many rows an input has with one for each value, or the table itself, whose rows are then ``own``; else
    the rows of the largest input. restricted: by input that has the key, its column.
    """
    single = [inputs[name].rows for name, column in restricted.items() if tables[name].keys == (column,)]
    return max([*single, *own] or [inputs[name].rows for name in restricted], default=0)


@dataclass(frozen=True)
class Trace:
    """Trace changes of inputs to the key values that they touch.

    spark: reads what this process does not. lake: where the inputs are. by: the key, and the paths from inputs to it.
    restricted: by input that has the key, its column. reads: the columns of inputs that matter; of an input that is
    missing, all do. inputs: their current states. changes: what is new in each of them. needs: what the query needs of
    the inputs. key_count: about how many values of the key there are.
    """

    spark: "SparkSession"
    lake: Lake
    by: ByKey
    restricted: Mapping[str, str]
    reads: Mapping[str, tuple[str, ...]]
    inputs: Mapping[str, TableState]
    changes: Mapping[str, Changes]
    needs: Needs = field(default_factory=Needs)
    key_count: int = 0

    @property
    def most(self) -> int:
        """The most key values that are followed: of more, the table is recomputed sooner than its rows are replaced."""
        return min(max(MAX_KEYS, int(self.key_count * MAX_KEY_SHARE)), MAX_LEADING_VALUES)

    def values(self) -> list[Any]:
        """Return the key values that changed rows have or lead to, before and after the change, sorted, null last.

        Raises FullRecompute if there are too many, or if null is among more than can be listed.
        """
        touched: set[Any] = set()
        for name, change in self.changes.items():
            if not change:
                continue
            touched.update(self._values_of(name, change))
            if len(touched) > self.most:
                raise FullRecompute(f"more than {self.most:,} values of {self.by.column} changed")
        values = [*sorted(touched - {None}), *({None} & touched)]
        if None in values and len(values) > delta_writes.MAX_LISTED_KEYS:
            raise FullRecompute(
                f"{self.by.column} is null in one of more than {delta_writes.MAX_LISTED_KEYS:,} rows that changed"
            )
        return values

    def changed(self) -> set[Any]:
        """Return the key values in all changed rows of inputs that have the key, needed or not; none if too many."""
        found: set[Any] = set()
        for name, column in self.restricted.items():
            if change := self.changes.get(name):
                values = changed_values(self.lake.folder(name), column, change, self.most)
                if len(values) > self.most:
                    return set()
                found |= _listed(values, self.by.column)
        return found

    def _values_of(self, name: str, change: Changes) -> set[Any]:
        import pyarrow as pa

        if name not in self.by.via:
            return _listed(self._changed(name, self.restricted[name], change, self.most), self.by.column)
        touched: set[Any] = set()
        for way in self.by.via[name].ways:
            # Many values of a column on the path may lead to few key values.
            values = self._changed(name, way.column, change, MAX_LEADING_VALUES)
            if not len(known := values.drop_null()):  # Spark Connect takes no rows without a type
                continue
            sought = pa.table({way.as_column: known})
            is_here = self._is_read_here(way.through)
            touched |= self._reached_here(way.through, sought) if is_here else self._reached(way.through, sought)
        return touched

    def _changed(self, name: str, column: str, change: Changes, most: int) -> "pa.Array":
        compared, condition = self.reads.get(name, ()), self.needs.condition_of(name)
        values = changed_values(self.lake.folder(name), column, change, most, compared, condition)
        if len(values) > most:
            raise FullRecompute(f"more than {most:,} values of {column} changed")
        return values

    def _is_read_here(self, name: str) -> bool:
        """Whether this process follows the paths from an input itself: for small tables, faster than a Spark job."""
        state = self.inputs[name]
        if state.bytes > delta_writes.MAX_LOCAL_TABLE_BYTES or features_for_spark(state.delta):
            return False
        return name not in self.by.via or all(self._is_read_here(way.through) for way in self.by.via[name].ways)

    def _reached_here(self, name: str, sought: "pa.Table") -> set[Any]:
        """Return the key values reached from rows of ``name`` whose column is in ``sought``.

        Its current rows are enough: deleted rows are part of its own changes.
        """
        import pyarrow as pa

        delta, folder = self.inputs[name].delta, self.lake.folder(name)
        if name not in self.by.via:
            values = distinct_values(delta, folder, self.restricted[name], sought, self.most + 1)
            return _listed(values, self.by.column)
        touched: set[Any] = set()
        for way in self.by.via[name].ways:
            values = distinct_values(delta, folder, way.column, sought, MAX_LEADING_VALUES + 1)
            if len(values) > MAX_LEADING_VALUES:
                raise FullRecompute(f"more than {MAX_LEADING_VALUES:,} values of {way.column} changed")
            if len(known := values.combine_chunks().drop_null()):
                touched |= self._reached_here(way.through, pa.table({way.as_column: known}))
        return touched

    def _reached(self, name: str, sought: "pa.Table | DataFrame") -> set[Any]:
        """Return the same as ``_reached_here``, by a Spark job."""
        import pyarrow as pa
        from pyspark.sql import functions as F

        if isinstance(sought, pa.Table):
            sought = F.broadcast(self.spark.createDataFrame(sought))
        rows = read_table(self.spark, self.lake.path(name), self.inputs[name])
        rows = rows.join(sought, sought.columns[0], "left_semi")
        if name not in self.by.via:
            keys = rows.select(self.restricted[name]).distinct().limit(self.most + 1).toArrow()
            return _listed(keys.column(0), self.by.column)
        touched: set[Any] = set()
        for way in self.by.via[name].ways:
            sought = rows.select(F.col(way.column).alias(way.as_column)).distinct()
            touched |= self._reached(way.through, sought)
        return touched


def _listed(values: "pa.Array | pa.ChunkedArray", column: str) -> set[Any]:
    """Return values of the key. Raises FullRecompute if Python cannot hold one, such as a date after the year 9999."""
    try:
        return {*values.to_pylist()}
    except OverflowError:
        raise FullRecompute(f"{column} has a value that is too large to be listed") from None
