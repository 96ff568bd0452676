"""Refreshing a table by touching what changed, from the definition that a full refresh recomputes.

Each commit tells which versions of its inputs it followed from, so what is new to a table is known from the logs alone,
after a crash as after a run in full. Where that cannot be told, or is much, the table is recomputed, and the event log
says why.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache, reduce
from threading import Lock
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.model.table import Additive, ByKey, Recent, Table
from medallion.refresh.additive_split import ROWS, Part, split_of
from medallion.refresh.cost import Costs, known_costs
from medallion.refresh.full import (
    Written,
    files_by_key,
    forget_logs,
    ids_of,
    input_states,
    overwrite,
    read_inputs,
    refresh_full,
    told,
    versions_of,
)
from medallion.spark.delta_reads import SIDE, changed_values, having, read_changes, read_table
from medallion.spark.session import TABLE_PROPERTIES, another, explained
from medallion.storage import delta_writes, files
from medallion.storage.change_feed import Changes, changes
from medallion.storage.damage import proven_damage
from medallion.storage.delta_writes import bytes_written, listed, named, properties, replace_rows
from medallion.storage.lake import Lake, TableState, origin_of, state_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

LARGE = 0.2  # the share of an input that may have changed, in bytes: beyond it, recomputing is cheaper
MOST_KEYS = 20_000  # values of a key that are named one by one
MOST_TASKS = 32  # of a stage, on a cluster however large: a change is small, and each task costs more than it carries
MOST_COMMITS = 24  # commits of an input that are added up one by one


class _InFull(Exception):
    """This table is recomputed; the message says why."""


class _Large(_InFull):
    """More has changed than is worth following."""


def refresh_incremental(spark: "SparkSession", lake: Lake, table: Table, *, hour: str | None, run_id: str) -> Written:
    """Bring ``table`` to its inputs' current versions in one commit, or none where no input changed.

    The rows are those that refresh_full gives.
    """
    try:
        return _refresh(_quick(spark), lake, table, hour, run_id, _costs(lake, run_id).get(table.name, Costs()))
    except _InFull as reason:
        large = isinstance(reason, _Large)
        # While one large change follows another, nothing is made ready for small ones.
        again = large and origin_of(lake.open(lake.path(table.name))).get("large", False)
        written = refresh_full(spark, lake, table, hour=hour, run_id=run_id, laid_out=not again, large=large)
        return replace(written, note=f"recomputed: {reason}")


def _refresh(spark: "SparkSession", lake: Lake, table: Table, hour: str | None, run_id: str, costs: Costs) -> Written:
    inputs = input_states(lake, table)
    former, origin = _former(lake, lake.path(table.name), table, inputs)
    found = {name: changes(lake.path(name), origin["inputs"][name], state.version) for name, state in inputs.items()}
    versions = versions_of(inputs)
    if not any(found.values()):
        return Written(0, 0, 0, former.version, versions, "incremental", "unchanged", "no input has changed")
    large, by_key = _large(found, inputs), isinstance(table.incremental, ByKey)
    commit = told(table, hour, run_id, "incremental", inputs, laid_out=by_key, large=large is not None)
    changed = sum(one.bytes for one in found.values())
    if isinstance(table.incremental, Additive | Recent):
        _require_cheap(costs, changed, f"{changed / 1e6:.1f} MB of changes")
    with explained(f"{table.name} could not be refreshed"):
        match table.incremental:
            case ByKey() as by:
                _require_few(found, inputs)
                laid_out = origin.get("laid_out", False) or files_by_key(former.rows) == 1
                return _by_key(spark, lake, table, by, former, inputs, found, commit, costs, laid_out)
            case Additive():
                if large and origin.get("large"):
                    raise _Large(large)
                written = _additive(spark, lake, table, former, inputs, hour, run_id, commit)
            case Recent() as recent:
                frames = read_inputs(spark, lake, inputs)
                frames[recent.input] = _recent(spark, lake, inputs[recent.input], recent)
                rows = spark.sql(table.query, **frames)
                written = _overwrite(lake, table, rows, former, inputs, "recent rows", commit)
            case None:
                rows = spark.sql(table.query, **read_inputs(spark, lake, inputs))
                return _overwrite(lake, table, rows, former, inputs, "recomputed", commit)
    return replace(written, changed=changed)


def _costs(lake: Lake, run_id: str) -> Mapping[str, Costs]:
    """What tables took lately, read once a run: an hour's own refreshes tell nothing about themselves."""
    with _READING:  # tables are refreshed side by side, and the first ones ask at once
        return _costs_before(lake, run_id)


@lru_cache(maxsize=4)
def _costs_before(lake: Lake, _run_id: str) -> Mapping[str, Costs]:
    return known_costs(lake)


_READING = Lock()


def _former(lake: Lake, path: str, table: Table, inputs: Mapping[str, TableState]) -> tuple[TableState, dict[str, Any]]:
    """A table as it is, and what its commit tells: the versions of its inputs that its rows follow from, and the rest.

    Raises _InFull when they are not known.
    """
    try:
        delta = lake.open(path)
    except MedallionError as damaged:
        raise _InFull(str(damaged)) from None
    origin = origin_of(delta)
    if delta is None or not origin:
        raise _InFull("it has not been written yet")
    if origin.get("query") != table.fingerprint:
        raise _InFull("its query has changed")
    known = origin.get("tables", {})
    if other := [name for name, made in ids_of(inputs).items() if known.get(name) != made]:
        raise _InFull(f"{other[0]} has been made anew")
    return state_of(delta), origin


def _require_cheap(costs: Costs, changed: int, told: str) -> None:
    if reason := costs.in_full(changed, told):
        raise _Large(reason)


def _require_few(found: Mapping[str, Changes], inputs: Mapping[str, TableState]) -> None:
    for name, one in found.items():
        if one.unknown:
            raise _InFull(f"what changed in {name} is not known: {one.unknown}")
    if reason := _large(found, inputs):
        raise _Large(reason)


def _large(found: Mapping[str, Changes], inputs: Mapping[str, TableState]) -> str | None:
    """Which input has changed too much to be followed, if one has."""
    for name, one in found.items():
        if one and one.bytes > LARGE * max(inputs[name].bytes, 1_000_000):
            share = one.bytes / max(inputs[name].bytes, 1)
            return f"{share:.0%} of {name} changed, more than {LARGE:.0%}"
    return None


# --- by key ----------------------------------------------------------------------------------------------------------


def _by_key(
    spark: "SparkSession",
    lake: Lake,
    table: Table,
    by: ByKey,
    former: TableState,
    inputs: Mapping[str, TableState],
    found: Mapping[str, Changes],
    commit: str,
    costs: Costs,
    laid_out: bool,
) -> Written:
    values = _touched(spark, lake, by, inputs, found)
    if not all(isinstance(value, int | str) and not {"\\", "'"}.intersection(str(value)) for value in values):
        raise _InFull(f"values of {by.column} cannot be named one by one")
    if not values:  # rows were rewritten as they were
        raise _InFull("its inputs were written anew")
    told = f"{len(values):,} values of {by.column}"
    _require_cheap(costs, len(values), told)  # not sooner: one product can lead to thousands of orders
    if not laid_out:  # each change would write most of the table anew
        raise _InFull(f"its files were not laid out by {by.column}")
    here = former.bytes <= delta_writes.MOST_BYTES
    if not here:
        spark = _quick(spark, filewise=True)
    frames: dict[str, Any] = {
        name: _restricted(spark, lake, name, state, by.column, values) for name, state in inputs.items()
    }
    new = spark.sql(table.query, **frames)
    if here:
        rows = new.toArrow()
        size = max(1, former.bytes // files_by_key(former.rows))
        replace_rows(former.delta, rows, by.column, values, properties(commit), size)
        count = rows.num_rows
    else:
        (
            new.coalesce(1)
            .write.format("delta")
            .mode("overwrite")
            .option("replaceWhere", named(by.column, values))
            .option("userMetadata", commit)
            .save(lake.path(table.name))
        )
        former.delta.update_incremental()
        count = int(former.delta.history(1)[0]["operationMetrics"].get("numOutputRows", 0))
    version = former.delta.version()
    return Written(
        len(values),
        count,
        bytes_written(lake.path(table.name), version),
        version,
        versions_of(inputs),
        "incremental",
        "by key",
        told,
        changed=len(values),
    )


def _touched(
    spark: "SparkSession", lake: Lake, by: ByKey, inputs: Mapping[str, TableState], found: Mapping[str, Changes]
) -> list[Any]:
    """The values of the key that changed rows of the inputs lead to, as they were and as they are, sorted."""
    import pyarrow as pa

    touched: set[Any] = set()
    for name, one in found.items():
        if not one:
            continue
        column = by.column if name not in by.via else by.via[name][0]
        values = changed_values(lake.path(name), column, one)
        if name in by.via:
            _, other, there = by.via[name]
            known = pa.table({there: values.drop_null()})
            values = _led(spark, lake, by, inputs, other, known)
        if values.null_count:
            raise _InFull(f"{by.column} is null in a row that changed")
        touched.update(values.to_pylist())
        if len(touched) > MOST_KEYS:
            raise _Large(f"more than {MOST_KEYS:,} values of {by.column} changed")
    return sorted(touched)


def _led(
    spark: "SparkSession", lake: Lake, by: ByKey, inputs: Mapping[str, TableState], name: str, sought: "pa.Table"
) -> "pa.Array":
    """The values of the key that rows of the input ``name`` lead to whose column has one of the values ``sought``.

    That input as it is will do: rows that left it are among its own changes.
    """
    from pyspark.sql import functions as F

    def read(name: str) -> "DataFrame":
        return read_table(spark, lake.path(name), inputs[name])

    rows = read(name).join(F.broadcast(spark.createDataFrame(sought)), sought.column_names[0], "left_semi")
    while by.column not in rows.columns:
        own, name, there = by.via[name]
        rows = read(name).join(rows.select(F.col(own).alias(there)).distinct(), there, "left_semi")
    column = rows.select(by.column).distinct().limit(MOST_KEYS + 1).toArrow()[by.column]
    return column.combine_chunks()


def _restricted(
    spark: "SparkSession", lake: Lake, name: str, state: TableState, column: str, values: list[Any]
) -> "DataFrame":
    """An input at the version of its state; of one that has ``column``, the rows with these values alone."""
    import pyarrow as pa
    from pyspark.sql import functions as F

    schema = pa.schema(state.delta.schema().to_arrow())
    if column not in schema.names:
        return read_table(spark, lake.path(name), state)
    rows = read_table(spark, lake.path(name), state, column, having(values))
    if len(values) <= delta_writes.MOST_NAMED:
        return rows.where(f"{column} IN ({listed(values)})")
    few = F.broadcast(spark.createDataFrame(pa.table({column: pa.array(values, schema.field(column).type)})))
    return rows.join(few, column, "left_semi")


# --- additive --------------------------------------------------------------------------------------------------------


def _additive(
    spark: "SparkSession",
    lake: Lake,
    table: Table,
    former: TableState,
    inputs: Mapping[str, TableState],
    hour: str | None,
    run_id: str,
    commit: str,
) -> Written:
    halves = split_of(table)
    notes = []
    sources = {name: _Source(name, lake.path(name), state) for name, state in inputs.items()}
    for name, part in halves.parts.items():
        source = sources[part.input]
        part_commit = told(table, hour, run_id, "incremental", {source.name: source.state})
        path = lake.kept(table.name, name)
        try:
            sums = _add(spark, lake, table, path, part, source, part_commit)
        except _InFull as reason:
            _sum_anew(spark, lake, table, name, part, source, path, part_commit)
            notes.append(f"the sums of {name} were made anew: {reason}")
            sums = state_of(lake.opened(path))
        sources[name] = _Source(name, path, sums, part)
    note = "; ".join(notes) or None
    frames: dict[str, Any] = {name: sources[name].rows(spark) for name in (*halves.inputs, *halves.sums)}
    return _overwrite(lake, table, spark.sql(halves.rest, **frames), former, inputs, "additive", commit, note)


@dataclass(frozen=True)
class _Source:
    """What a part reads: an input, or the sums of another ``part``."""

    name: str
    path: str
    state: TableState
    part: Part | None = None

    def rows(self, spark: "SparkSession") -> "DataFrame":
        rows = read_table(spark, self.path, self.state)
        return rows if self.part is None else _value(rows, self.part)

    def changed(self, spark: "SparkSession", found: Changes) -> "DataFrame":
        """The rows that ``found`` took away and brought, with SIDE."""
        changed = read_changes(spark, self.path, self.state.delta, found)
        if self.part is None:
            return changed
        if {kind for _, kind, _ in found.files} != {"add"}:
            raise _InFull(f"the sums of {self.name} were made anew")
        return _regrouped(read_table(spark, self.path, self.state), changed, self.part)


def _add(
    spark: "SparkSession", lake: Lake, table: Table, path: str, part: Part, source: _Source, commit: str
) -> TableState:
    """Add what changed in the part's input to its sums, in one commit of the differences, which are few."""
    from deltalake import write_deltalake

    read = {source.name: source.state}
    sums, origin = _former(lake, path, table, read)
    found = changes(source.path, origin["inputs"][source.name], source.state.version)
    _require_few({source.name: found}, read)
    if len(found.versions) > MOST_COMMITS:
        raise _InFull(f"{source.name} has {len(found.versions)} commits since")
    if not found:
        return sums
    feed = source.changed(spark, found)
    write_deltalake(sums.delta, _difference(spark, part, feed), mode="append", commit_properties=properties(commit))
    return state_of(sums.delta)


def _regrouped(log: "DataFrame", differences: "DataFrame", part: Part) -> "DataFrame":
    """The groups that ``differences``, which are in ``log`` already, have changed: as they were and as they are."""
    from pyspark.sql import functions as F

    def new(name: str) -> str:
        return f"_new_{name}"

    added = differences.groupBy(*part.keys).agg(*(F.sum(c).alias(new(c)) for c in part.counters))
    added = added.withColumnsRenamed({key: new(key) for key in part.keys})
    same = reduce(lambda a, b: a & b, (F.col(key).eqNullSafe(F.col(new(key))) for key in part.keys))
    groups = (
        log.join(F.broadcast(added), same)
        .groupBy(*part.keys)
        .agg(*(F.sum(c).alias(c) for c in part.counters), *(F.first(new(c)).alias(new(c)) for c in part.counters))
    )

    def side(number: int, counted: Callable[[str], "Column"]) -> "Column":
        counters = (counted(c).cast(log.schema[c].dataType).alias(c) for c in part.counters)
        return F.struct(F.lit(number).alias(SIDE), *part.keys, *counters)

    before = side(-1, lambda c: F.col(c) - F.col(new(c)))
    sides = groups.select(F.explode(F.array(before, side(1, F.col))).alias("side")).select("side.*")
    return _given(sides, part, SIDE)


def _difference(spark: "SparkSession", part: Part, feed: "DataFrame") -> "pa.Table":
    """By key, what changes add to each sum; keys where that is nothing are left out."""
    from pyspark.sql import functions as F

    feeds: dict[str, Any] = {part.input: feed}
    sides = spark.sql(part.by_side, **feeds).coalesce(1)

    def added(counter: str) -> "Column":
        count = F.coalesce(counter, F.lit(0))
        total = F.sum(F.when(F.col(SIDE) > 0, count).otherwise(-count))
        return total.cast(sides.schema[counter].dataType).alias(counter)

    sums = sides.groupBy(*part.keys).agg(*map(added, part.counters))
    return sums.where(reduce(lambda a, b: a | b, (F.col(c) != 0 for c in part.counters))).toArrow()


def _sum_anew(
    spark: "SparkSession",
    lake: Lake,
    table: Table,
    name: str,
    part: Part,
    source: _Source,
    path: str,
    commit: str,
) -> None:
    from pyspark.sql import functions as F

    frames: dict[str, Any] = {source.name: source.rows(spark)}
    sums = spark.sql(part.query, **frames)
    if inexact := [c for c in part.sums if sums.schema[c].dataType.typeName() in {"float", "double"}]:
        raise MedallionError(
            f"{table.name} keeps {name}, whose {inexact[0]} is DOUBLE: adding and taking away would drift, use DECIMAL"
        )
    try:
        lake.open(path)
    except MedallionError:
        if proven_damage(path) is None:
            raise
        files.remove_tree(files.at(path))
        forget_logs(spark)
    filled = sums.select(
        *part.keys,
        *(F.coalesce(c, F.lit(0)).cast(sums.schema[c].dataType).alias(c) for c in part.counters),
    )
    (
        filled.write.format("delta")
        .mode("overwrite")
        .options(**TABLE_PROPERTIES)
        .option("overwriteSchema", "true")
        .option("userMetadata", commit)
        .save(path)
    )


def _value(log: "DataFrame", part: Part) -> "DataFrame":
    """The part as its query gives it, from the differences that make it up."""
    from pyspark.sql import functions as F

    totals = (F.sum(c).cast(log.schema[c].dataType).alias(c) for c in part.counters)
    return _given(log.groupBy(*part.keys).agg(*totals), part)


def _given(groups: "DataFrame", part: Part, *more: str) -> "DataFrame":
    """Groups with their counters as the part's query gives them, after the columns ``more``: those without rows are
    gone, and a sum of no values is null."""
    from pyspark.sql import functions as F

    sums = (F.when(F.col(part.values[c]) > 0, F.col(c)).alias(c) if c in part.values else c for c in part.sums)
    return groups.where(F.col(ROWS) > 0).select(*more, *part.keys, *sums)


# --- writing what is small -------------------------------------------------------------------------------------------


def _overwrite(
    lake: Lake,
    table: Table,
    rows: "DataFrame",
    former: TableState,
    inputs: Mapping[str, TableState],
    how: str,
    commit: str,
    note: str | None = None,
) -> Written:
    state = overwrite(lake, table, rows, former, commit)
    rows_in = sum(one.rows for one in inputs.values())
    strategy = "full" if how == "recomputed" else "incremental"
    note = note or ("it is small and always recomputed" if how == "recomputed" else None)
    return Written(rows_in, state.rows, state.bytes, state.version, versions_of(inputs), strategy, how, note)


def _recent(spark: "SparkSession", lake: Lake, state: TableState, recent: Recent) -> "DataFrame":
    """The files with the newest rows, going by their statistics; all of them where a file has none."""
    known = [value for value in state.told.get(f"max.{recent.column}", ()) if value is not None]
    if len(known) < max(1, state.files):
        return read_table(spark, lake.path(recent.input), state)
    newest = max(known) - recent.span - timedelta(seconds=1)  # a second more, as statistics are cut to milliseconds
    return read_table(spark, lake.path(recent.input), state, recent.column, lambda _, most: most > newest)


@lru_cache(maxsize=2)
def _quick(spark: "SparkSession", *, filewise: bool = False) -> "SparkSession":
    """A session for small jobs, one for all: what adapts a plan while it runs costs more than it saves.

    filewise: one task per file, so that replacing rows leaves each file in its place and does not merge those it
    touches.
    """
    session = another(spark)
    session.conf.set("spark.sql.adaptive.enabled", "false")
    # Keys stay out of the code that is generated for a query: each hour's would be compiled anew.
    session.conf.set("spark.sql.optimizer.inSetConversionThreshold", "0")
    session.conf.set("spark.sql.optimizer.inSetSwitchThreshold", "0")
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or MOST_TASKS)
    session.conf.set("spark.sql.shuffle.partitions", str(min(partitions, MOST_TASKS)))
    if filewise:
        session.conf.set("spark.sql.files.openCostInBytes", str(128 << 20))
    return session
