"""Aggregate state: the sums and counts of a part by its groups, kept as a log of differences beside the tables.

Each commit adds what one change adds to each group; the sum over the log is the part as its query gives it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.model.additive_split import ROWS, Part
from medallion.model.plan import Column
from medallion.model.refresh_method import SIDE
from medallion.model.table import Table
from medallion.refresh.commits import replaced_by
from medallion.refresh.cost import BEFORE_RETRY
from medallion.refresh.inputs import changes_since
from medallion.refresh.plan import FullRecompute, Target, require_followable
from medallion.refresh.state_log import MAX_GROUPS, StateLog
from medallion.spark.collect import collect
from medallion.spark.delta_reads import read_changes, read_table
from medallion.storage import replaced_rows
from medallion.storage.change_feed import Changes
from medallion.storage.lake import TableState
from medallion.storage.replaced_rows import reason_not_followed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# Most commits of an input that one refresh adds up: those before incremental is tried again, and some of upkeep.
MAX_COMMITS = BEFORE_RETRY + 8


@dataclass(frozen=True)
class Source:
    """What a part reads: an input, with the ``columns`` that queries see, or the aggregate state of a ``part``."""

    name: str
    path: str
    state: TableState
    part: Part | None = None
    columns: tuple[Column, ...] | None = None

    def rows(self, spark: "SparkSession") -> "DataFrame":
        """Return its rows, as queries read them."""
        rows = read_table(spark, self.path, self.state, columns=self.columns)
        return rows if self.part is None else _current_groups(rows, self.part)

    def changed(self, spark: "SparkSession", change: Changes) -> "DataFrame":
        """Return the rows that ``change`` deleted and inserted, with SIDE."""
        changed = read_changes(spark, self.path, self.state.delta, change, self.columns)
        if self.part is None:
            return changed
        if {kind for _, kind, _ in change.files} != {"add"}:
            raise FullRecompute(f"the aggregate state of {self.name} was rebuilt")
        return _changed_groups(read_table(spark, self.path, self.state), changed, self.part)


@dataclass(frozen=True)
class AggregateState:
    """The aggregate state of one part of a table that is refreshed."""

    target: Target
    name: str
    part: Part
    source: Source

    @property
    def log(self) -> StateLog:
        """The Delta log with the state."""
        return StateLog(self.target, self.name, {self.source.name: self.source.state})

    def add_changes(self) -> TableState:
        """Add what changed in the part's source to the log, in one commit.

        Raises FullRecompute if the change cannot be added to the log.
        """
        source, log = self.source, self.log
        state, origin = log.former()
        change = changes_since(self.target.lake.at(source.path), source.name, source.state, origin)
        require_followable({source.name: change}, log.inputs)
        self._require_followed_commits(change, origin)
        if len(change.versions) > MAX_COMMITS:
            raise FullRecompute(f"{source.name} has {len(change.versions)} commits since")
        if change:
            difference = _difference(self.target.spark, self.part, source.changed(self.target.spark, change))
            return log.append(state.delta, difference, self.part.keys)
        return log.append(state.delta, None, self.part.keys) if log.lags(origin) else state

    def _require_followed_commits(self, change: Changes, origin: Mapping[str, Any]) -> None:
        """Raise FullRecompute if a commit contains rows that the proof of this part does not cover."""
        if origin.get("method_version") != replaced_rows.METHOD_VERSION:
            raise FullRecompute("it was written by another version of its refresh method")
        if self.source.part is not None:  # of aggregate state, every changed group is known before and after
            return
        node = self.target.run.tables[self.source.name]
        for version, commit in zip(change.versions, change.metadata, strict=True):
            if isinstance(node, Table) and commit.get("query", node.fingerprint) != node.fingerprint:
                raise FullRecompute(f"version {version} of {node.name} was computed by another query")
            if reason := reason_not_followed(commit, replaced_by(node)):
                raise FullRecompute(f"version {version} of {node.name} {reason}")

    def rebuild(self) -> TableState:
        """Compute the state from all rows of the part's source. Raises MedallionError for a floating-point sum."""
        from pyspark.sql import functions as F

        table, part, spark = self.target.table, self.part, self.target.spark
        frames: dict[str, Any] = {self.source.name: self.source.rows(spark)}
        sums = spark.sql(part.query, **frames)
        if inexact := [c for c in part.sums if sums.schema[c].dataType.typeName() in {"float", "double"}]:
            raise MedallionError(
                f"{table.name} cannot be refreshed by {table.refresh_method}: `{self.name}` does not add up,"
                f" {inexact[0]} is a sum of floating-point numbers, which would drift: use DECIMAL"
            )
        filled = sums.select(
            *part.keys,
            *(F.coalesce(c, F.lit(0)).cast(sums.schema[c].dataType).alias(c) for c in part.counters),
        )
        return self.log.write(filled)


# SQL as text from here on: the column API would make several JVM calls per function.


def _changed_groups(log: "DataFrame", differences: "DataFrame", part: Part) -> "DataFrame":
    """Return the groups that ``differences`` changed, before and after; ``log`` contains them already.

    A group that lost its last row may be gone from the log: upkeep leaves out groups that add up to 0.
    """
    keys = _list("`{0}`", part.keys)
    same = " AND ".join(f"log.`{key}` <=> added.`{key}`" for key in part.keys)

    def side(number: int, counter: str) -> str:
        counters = ", ".join(f"CAST({counter.format(c)} AS {_type(log, c)}) AS `{c}`" for c in part.counters)
        return f"STRUCT({number} AS {SIDE}, {keys}, {counters})"

    zeros = {c: f"CAST(0 AS {_type(log, c)})" for c in part.counters}
    of_log = ", ".join(f"log.`{c}`, {zero} AS `_added_{c}`" for c, zero in zeros.items())
    of_added = ", ".join(f"{zero} AS `{c}`, `{c}` AS `_added_{c}`" for c, zero in zeros.items())
    changed = f"""
        WITH added AS (
            SELECT {keys}, {_list("SUM(`{0}`) AS `{0}`", part.counters)} FROM {{differences}} GROUP BY {keys}
        ),
        parts AS (
            SELECT /*+ BROADCAST(added) */ {_list("log.`{0}`", part.keys)}, {of_log}
            FROM {{log}} AS log
            LEFT SEMI JOIN added ON {same}
            UNION ALL
            SELECT {keys}, {of_added} FROM added
        ),
        changed AS (
            SELECT {keys}, {_list("SUM(`{0}`) AS `{0}`, SUM(`_added_{0}`) AS `_added_{0}`", part.counters)}
            FROM parts
            GROUP BY {keys}
        ),
        sides AS (
            SELECT INLINE(ARRAY({side(-1, "`{0}` - `_added_{0}`")}, {side(1, "`{0}`")})) FROM changed
        )
        SELECT {SIDE}, {_visible_columns(part)} FROM sides WHERE {ROWS} > 0
    """
    return log.sparkSession.sql(changed, log=log, differences=differences)


def _difference(spark: "SparkSession", part: Part, feed: "DataFrame") -> "pa.Table":
    """Return what the changes add to each sum, by key, without keys whose sums stay the same."""
    feeds: dict[str, Any] = {part.input: feed}
    sides = spark.sql(part.query_by_commit, **feeds).coalesce(1)
    sums = ", ".join(
        f"CAST(SUM(COALESCE(IF({SIDE} > 0, `{c}`, -`{c}`), 0)) AS {_type(sides, c)}) AS `{c}`" for c in part.counters
    )
    keys, differs = _list("`{0}`", part.keys), " OR ".join(f"`{c}` <> 0" for c in part.counters)
    added = spark.sql(
        f"SELECT * FROM (SELECT {keys}, {sums} FROM {{sides}} GROUP BY {keys}) WHERE {differs}", sides=sides
    )
    if (data := collect(added, MAX_GROUPS)) is None:
        raise FullRecompute(f"more than {MAX_GROUPS:,} of its groups changed")
    return data


def _current_groups(log: "DataFrame", part: Part) -> "DataFrame":
    """Add up the differences in a log; the sum is the part as its query gives it."""
    keys = _list("`{0}`", part.keys)
    sums = ", ".join(f"CAST(SUM(`{c}`) AS {_type(log, c)}) AS `{c}`" for c in part.counters)
    groups = f"SELECT {keys}, {sums} FROM {{log}} GROUP BY {keys}"
    return log.sparkSession.sql(f"SELECT {_visible_columns(part)} FROM ({groups}) WHERE {ROWS} > 0", log=log)


def _visible_columns(part: Part) -> str:
    """Return SQL for the columns of the part's query, in order, for groups with rows: a sum of no values is null."""
    counted = {c: f"IF(`{part.values[c]}` > 0, `{c}`, NULL) AS `{c}`" for c in part.sums if c in part.values}
    return ", ".join(counted.get(column, f"`{column}`") for column in part.columns)


def _list(item: str, names: Iterable[str]) -> str:
    return ", ".join(item.format(name) for name in names)


def _type(rows: "DataFrame", column: str) -> str:
    return rows.schema[column].dataType.simpleString()
