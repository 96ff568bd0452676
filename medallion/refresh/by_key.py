"""Upsert by key: recompute and replace the rows with the key values that a change touches, in one commit."""

import re
from time import perf_counter
from typing import TYPE_CHECKING, Any

from medallion.model.methods import ByKey
from medallion.model.refresh_method import RefreshMethod, StateWork
from medallion.refresh.commits import files_by_key
from medallion.refresh.inputs import versions_of
from medallion.refresh.keyed_inputs import Frames, KeyedInputs, frames_without_rows, session_of
from medallion.refresh.plan import FullRecompute, ProofViolated, Refresh, is_judged_by_cost, require_followable
from medallion.refresh.refresh_run import Written
from medallion.refresh.touched import Trace, count_keys
from medallion.spark.collect import collect
from medallion.sql_text import backquoted, spark_text_literal
from medallion.storage import delta_writes
from medallion.storage.clustering import as_clustered, cluster
from medallion.storage.delta_writes import (
    bytes_written,
    identifier,
    key_condition,
    properties,
    replace_rows,
)
from medallion.storage.foreign_commits import stamped
from medallion.storage.lake import TableState
from medallion.storage.table_features import features_for_spark, note_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_KEY, _IS_KEY, _KNOWN = "_touched_key", "_is_touched_key", "_is_known_key"
_FOREIGN = "[key that was not touched: "
MAX_LOCAL_ROWS = 1_000_000  # most rows that this process writes itself; Spark writes more than that
MAX_LOCAL_BYTES = 256 << 20  # most bytes of these rows, by the average size of the table's rows in its files
MAX_MERGED_SHARE = 0.005  # share of a key's values from which a recompute costs less than Spark's join with the table


def upsert(refresh: Refresh, by: ByKey, values: list[Any]) -> Written:
    """Replace the rows with these ``values`` of the key."""
    clustering = _ensure_clustered(refresh, by.column)
    return _upsert(refresh, by, values, clustering)


def _upsert(
    refresh: Refresh, by: ByKey, values: list[Any], clustering: str | None, *, by_spark: bool = False
) -> Written:
    """by_spark: whether Spark writes the rows in any case."""
    former, column = refresh.former, by.column
    is_local = delta_writes.writes_here(former, refresh.lake.marks_from) and not by_spark
    proof = refresh.proof
    commit = refresh.commit_metadata(
        RefreshMethod.UPSERT, (column,), clustered=bool(clustering) or refresh.is_clustered
    )
    is_merge = not is_local and len(values) > delta_writes.MAX_LISTED_KEYS
    spark = refresh.spark if is_local else refresh.run.sessions.filewise
    if is_merge:  # whose commit takes its metadata from the session
        of_commit = {"spark.databricks.delta.commitInfo.userMetadata": stamped(commit, former.delta)}
        spark = refresh.run.sessions.for_table(refresh.table.name, of_commit)
    trace = _trace(refresh, by)
    sides = KeyedInputs(refresh, spark, by, proof.restricted, [refresh.inputs], values, changed=trace.changed).frames()
    frames: Frames = sides[0] if sides else frames_without_rows(spark, proof.inputs)
    rows = session_of(frames).sql(refresh.table.query, **frames)
    if is_local:
        data = collect(rows, max_local_rows(former))  # a few keys may have many rows
        if data is not None:
            _require_touched(data, column, values)
        elif len(values) > delta_writes.MAX_LISTED_KEYS:
            _require_few(refresh, by, len(values), trace.key_count, "more or wider rows than one process writes")
        if data is None or not _replace_here(refresh, data, column, values, commit):
            return _upsert(refresh, by, values, clustering, by_spark=True)
        count = data.num_rows
    elif is_merge:
        count = _merge_by_spark(refresh, spark, rows, column, values)
    else:
        count = _replace_by_spark(refresh, rows, column, values, commit)
    version = former.delta.version()
    note = f"{len(values):,} values of {column}"
    if written_by_spark := note_of(former.delta):
        note += f"; {written_by_spark}"
    if clustering:
        note += f"; {clustering}"
    return Written(
        rows_in=len(values),
        rows_out=count,
        bytes_out=bytes_written(refresh.lake.at(refresh.path), version),
        version=version,
        inputs=versions_of(refresh.inputs),
        strategy="incremental",
        method=RefreshMethod.UPSERT,
        note=note,
        changed=len(values),
        state_work=StateWork.REBUILT if clustering else None,
    )


def max_local_rows(former: TableState) -> int:
    """Return how many rows of a table this process writes at most: fewer if they are wide."""
    if not former.rows:
        return MAX_LOCAL_ROWS
    return min(MAX_LOCAL_ROWS, MAX_LOCAL_BYTES * former.rows // max(1, former.bytes))


def find_touched_keys(refresh: Refresh, by: ByKey) -> list[Any]:
    """Trace what changed in the inputs to the values of the key whose rows an upsert replaces, sorted, null last.

    Raises FullRecompute if they are unknown or too many, or if replacing their rows costs more than a full recompute.
    """
    require_followable(refresh.changes, refresh.inputs)
    trace = _trace(refresh, by)
    values = trace.values()
    # Cost is judged only now: before the trace, one changed product may stand for thousands of orders.
    if values:
        refresh.require_cheap(len(values), trace.key_count, f"{len(values):,} values of {by.column}")
        former = refresh.former
        rows = min(former.rows, len(values) * former.rows // max(1, trace.key_count))  # inputs may have lost their keys
        if rows > max_local_rows(former):
            _require_few(refresh, by, len(values), trace.key_count, f"about {rows:,} rows")
    return values


def _require_few(refresh: Refresh, by: ByKey, count: int, key_count: int, rows: str) -> None:
    """Raise FullRecompute if Spark is expected to take longer to replace the rows of so many values than all rows.

    count: values whose rows are replaced. key_count: about how many values of the key there are. rows: how many rows
    they have, in words, for the reason.
    """
    if count > MAX_MERGED_SHARE * key_count and is_judged_by_cost(refresh):
        raise FullRecompute(
            f"{count:,} values of {by.column} have {rows}: replacing them would take longer than recomputing the table"
        )


def _trace(refresh: Refresh, by: ByKey) -> Trace:
    proof, inputs, changes = refresh.proof, refresh.inputs, refresh.changes
    reads, needs, tables = proof.reads_of(), proof.needs_of(), refresh.run.tables
    own = [refresh.former.rows] if refresh.table.keys == (by.column,) else []
    count = count_keys(tables, proof.restricted, inputs, own)
    return Trace(refresh.spark, refresh.lake, by, proof.restricted, reads, inputs, changes, needs, count)


def _ensure_clustered(refresh: Refresh, column: str) -> str | None:
    """Cluster the table by ``column`` and return a note; None if it is clustered, or need not or cannot be.

    Without clustering, each change would rewrite most files. The first full refresh writes the table clustered; later
    ones leave that to the next upsert.
    """
    former = refresh.former
    wanted = files_by_key(former, refresh.lake.marks_from)
    if refresh.is_clustered or wanted == 1 or features_for_spark(former.delta):
        return None
    file_bytes, started, why_not = max(1, former.bytes // wanted), perf_counter(), ""
    if delta_writes.rewrites_here(former):
        _, why_not = cluster(former.delta, column, file_bytes, former.bytes, refresh.origin)
    else:
        of_commit = {
            "spark.databricks.delta.optimize.maxFileSize": str(file_bytes),
            "spark.databricks.delta.commitInfo.userMetadata": stamped(as_clustered(refresh.origin), former.delta),
        }
        session = refresh.run.sessions.for_table(refresh.table.name, of_commit)
        session.sql(f"OPTIMIZE {identifier(refresh.path)} ZORDER BY ({backquoted(column)})")
        former.delta.update_incremental()
    took = f"which took {perf_counter() - started:.1f} s"
    return f"{why_not}, {took}" if why_not else f"clustered by {column}, {took}: the last full refresh did not"


def _replace_here(refresh: Refresh, data: "pa.Table", column: str, values: list[Any], commit: str) -> bool:
    """Write the new rows in this process; return whether it was done, as ``replace_rows`` does."""
    former = refresh.former
    size = max(1, former.bytes // files_by_key(former, refresh.lake.marks_from))
    layout = delta_writes.layout_for(former, refresh.lake.at(refresh.path), size, refresh.lake.marks_from)
    return replace_rows(former.delta, data, column, values, properties(commit, upon=former.delta), layout)


def _replace_by_spark(refresh: Refresh, rows: "DataFrame", column: str, values: list[Any], commit: str) -> int:
    """Let Spark write what does not fit in this process, and return how many rows it wrote.

    Delta rejects rows that do not match the condition of what it replaces.
    """
    from pyspark.errors import PySparkException

    condition = key_condition(backquoted(column), values, spark_text_literal)
    metadata = stamped(commit, refresh.former.delta)
    writer = rows.coalesce(1).write.format("delta").mode("overwrite").option("userMetadata", metadata)
    try:
        writer.option("replaceWhere", condition).save(refresh.path)
    except PySparkException as error:
        if "REPLACE_WHERE_MISMATCH" not in str(error):
            raise
        foreign = rows.where(f"NOT COALESCE({condition}, FALSE)").select(backquoted(column)).limit(1).collect()
        raise _violated(column, foreign[0][0] if foreign else "an unknown value") from None
    refresh.former.delta.update_incremental()
    return int(refresh.former.delta.history(1)[0]["operationMetrics"].get("numOutputRows", 0))


def _merge_by_spark(refresh: Refresh, spark: "SparkSession", rows: "DataFrame", column: str, values: list[Any]) -> int:
    """Let Spark replace the rows of more keys than a condition can list, by a join; return how many rows it wrote."""
    import pyarrow as pa
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    kind = pa.schema(refresh.former.delta.schema().to_arrow()).field(column).type
    listed = pa.table({_KEY: pa.array(values, kind), _IS_KEY: pa.array([True] * len(values))})
    keys = refresh.run.passed.frame(spark, listed)
    removed = keys.select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema), _KEY, _IS_KEY)
    known = keys.withColumnRenamed(_IS_KEY, _KNOWN)
    added = rows.join(known, rows[backquoted(column)].eqNullSafe(known[_KEY]), "left").drop(_KEY)
    source = added.unionByName(removed, allowMissingColumns=True)
    own = backquoted(column)
    value = f"COALESCE(CAST(s.{own} AS STRING), 'null')"
    checked = f"CASE WHEN s.{_KNOWN} THEN s.{own} ELSE raise_error(CONCAT('{_FOREIGN}', {value}, ']')) END"
    names = [backquoted(name) for name in rows.columns]
    written = [checked if name.lower() == own.lower() else f"s.{name}" for name in names]  # as Spark resolves names
    target = identifier(refresh.path).replace("{", "{{").replace("}", "}}")
    merge = f"""
        MERGE INTO {target} AS t USING {{source}} AS s ON s.{_IS_KEY} AND t.{own} <=> s.{_KEY}
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED AND s.{_IS_KEY} IS NULL THEN INSERT ({", ".join(names)}) VALUES ({", ".join(written)})
    """
    try:
        spark.sql(merge, source=source)
    except (PySparkException, Py4JJavaError) as error:  # the latter if the cause lies deeper
        if (foreign := re.search(re.escape(_FOREIGN) + r"(.*?)\]", str(error))) is None:
            raise
        raise _violated(column, foreign[1]) from None
    refresh.former.delta.update_incremental()
    return int(refresh.former.delta.history(1)[0]["operationMetrics"].get("numTargetRowsInserted", 0))


def _require_touched(data: "pa.Table", column: str, values: list[Any]) -> None:
    """Raise ProofViolated for a row whose key is not among the touched ones: it would duplicate or lose rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = pc.unique(data[column])
    foreign = keys.filter(pc.invert(pc.is_in(keys, pa.array(values, keys.type))))
    if len(foreign):
        raise _violated(column, foreign[0].as_py())


def _violated(column: str, value: object) -> ProofViolated:
    return ProofViolated(
        f"a row with {column} = {value} followed from a change of other values of {column};"
        " the table was recomputed in full: report its query"
    )
