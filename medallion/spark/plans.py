"""Analyse a query with Spark: its analysed plan over empty frames of declared columns, in this process's own JVM."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.model.plan import Analysis, Column, NoPlans, UnknownRelation
from medallion.model.plan_json import read_plan
from medallion.model.plan_rows import Optimized, give_same_rows

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

    from medallion.settings import Settings

_WHERE_PLANS_ARE_COMPARED = {
    "spark.sql.optimizer.collapseProjectAlwaysInline": "true",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.MergeSubplans",
    "spark.sql.optimizer.inSetConversionThreshold": str(2**31 - 1),
}
_LINE = re.compile(r"\bline (\d+)")
_FRAME_NAME = re.compile(r"`?_pyspark_[0-9a-f]{32}`?\.?")


def unknown_relation(error: "PySparkException") -> UnknownRelation | None:
    """Return the relation that Spark does not find, if that is what an error says."""
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return None
    name = (error.getMessageParameters() or {}).get("relationName", "a table").replace("`", "")
    line = _LINE.search(str(error))
    return UnknownRelation(name, int(line[1]) if line else None)


class SparkAnalyser:
    """Analyses queries in a classic session; no query is run."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self._frames = cache(self._frame)

    def __call__(
        self, query: str, inputs: Mapping[str, tuple[Column, ...]], /, *, same_as: str = "", optimize: bool = False
    ) -> Analysis:
        """Analyse ``query`` over ``inputs``. Raises MedallionError, in one line, if Spark refuses it."""
        rows = self._rows(query, inputs)
        plan: Any = rows._jdf.queryExecution().analyzed()
        columns = tuple((field.name, field.dataType.simpleString(), field.nullable) for field in rows.schema)
        is_same = bool(same_as) and _are_same(rows, self._rows(same_as, inputs))
        optimized, reads = self._optimized(rows, inputs) if optimize else ("", ())
        deterministic = bool(plan.deterministic())
        types = dict(_aggregate_types(plan))
        return Analysis(str(plan.toJSON()), types, columns, deterministic, is_same, optimized, reads)

    def _optimized(
        self, rows: "DataFrame", inputs: Mapping[str, tuple[Column, ...]]
    ) -> tuple[str, tuple[tuple[int, str], ...]]:
        """Return the optimized plan of a query, and the input of each read; nothing if it is not one for any rows."""
        with _as_written(rows.sparkSession):
            plan = _optimized_plan(rows)
        if plan is None:
            return "", ()
        names = {_rdd_of(self._frames(name, columns)): name for name, columns in inputs.items()}
        return str(plan.toJSON()), tuple((column, names[rdd]) for column, rdd in _reads(plan))

    def _rows(self, query: str, inputs: Mapping[str, tuple[Column, ...]]) -> "DataFrame":
        from pyspark.errors import PySparkException

        frames: dict[str, Any] = {name: self._frames(name, columns) for name, columns in inputs.items()}
        try:
            return self._spark.sql(query, **frames)
        except PySparkException as error:
            if (relation := unknown_relation(error)) is not None:
                raise relation from None
            line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise MedallionError(f"Spark cannot analyse its query: {_FRAME_NAME.sub('', line)[:400]}") from None

    def _frame(self, name: str, columns: tuple[Column, ...]) -> "DataFrame":
        """Return an empty frame with ``columns``, each of which names its input table and column in its metadata."""
        from pyspark.sql.types import StructField, StructType

        declared: Any = StructType.fromDDL(", ".join(f"`{column}` {kind}" for column, kind, _ in columns))
        fields = [
            StructField(field.name, field.dataType, is_nullable, {"input": name, "column": field.name})
            for field, (_, _, is_nullable) in zip(declared, columns, strict=True)
        ]
        return self._spark.createDataFrame([], StructType(fields))


def _are_same(left: "DataFrame", right: "DataFrame") -> bool:
    """Return whether Spark's optimizer produces plans for both that give the same rows for any rows of the inputs.

    Settings make it inline every named expression, however often it is used, and leave subqueries and long lists as
    they are. Otherwise equal queries could get different plans because of estimated cost, and different ones could look
    alike.
    """
    with _as_written(left.sparkSession):
        return _have_one_plan(left, right)


@contextmanager
def _as_written(spark: "SparkSession") -> Iterator[None]:
    """Let the optimizer change nothing because of estimated cost."""
    former = {name: spark.conf.get(name, None) for name in _WHERE_PLANS_ARE_COMPARED}
    for name, value in _WHERE_PLANS_ARE_COMPARED.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, before in former.items():
            spark.conf.unset(name) if before is None else spark.conf.set(name, before)


def _have_one_plan(left: "DataFrame", right: "DataFrame") -> bool:
    plans = [_optimized_plan(rows) for rows in (left, right)]
    if None in plans:
        return False
    if left.schema.simpleString() != right.schema.simpleString():
        return False
    return _are_one_to_spark(*plans) or give_same_rows(*map(_optimized, plans))


def _optimized_plan(rows: "DataFrame") -> Any:
    """Return the optimized plan of a query; None if there is none, or if it makes use of the frames being empty."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        plan: Any = rows._jdf.queryExecution().optimizedPlan()
    except (Py4JJavaError, PySparkException):  # such as a division of constants by zero, which the refresh will report
        return None
    return None if any(node.nodeName() == "LocalRelation" for node in _nodes(plan)) else plan


def _are_one_to_spark(left: Any, right: Any) -> bool:
    return bool(left.sameResult(right))


def _optimized(plan: Any) -> Optimized:
    return Optimized(
        read_plan(Analysis(str(plan.toJSON()), dict(_aggregate_types(plan)), (), True)), dict(_reads(plan))
    )


def _reads(plan: Any) -> list[tuple[int, str]]:
    """Return, for each leaf of a plan, the id of its first column, and the RDD that it reads."""
    leaves = (node for node in _nodes(plan) if node.nodeName() == "LogicalRDD")
    return [(int(leaf.output().head().exprId().id()), str(leaf.rdd().id())) for leaf in leaves]


def _rdd_of(frame: "DataFrame") -> str:
    analysed: Any = frame._jdf.queryExecution().analyzed()
    ((_, rdd),) = _reads(analysed)
    return rdd


def _aggregate_types(plan: Any) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield, by result id, the type of each aggregate and of its first input."""
    for node in _nodes(plan):
        if node.nodeName() in {"Aggregate", "Window"}:
            for expression in _items(node.expressions()):
                yield from _types_in(expression)


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield a plan node and all nodes below it, including those in subqueries."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += [*_items(node.children()), *_items(node.subqueries())]
        yield node


def _types_in(expression: Any) -> Iterator[tuple[int, tuple[str, str]]]:
    if expression.nodeName() != "AggregateExpression":
        for child in _items(expression.children()):
            yield from _types_in(child)
        return
    inputs = _items(expression.aggregateFunction().children())
    read = inputs[0].dataType().simpleString() if inputs else ""
    yield int(expression.resultId().id()), (str(expression.dataType().simpleString()), str(read))


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def analyse_here(
    settings: "Settings",
    query: str,
    inputs: Mapping[str, tuple[Column, ...]],
    /,
    *,
    same_as: str = "",
    optimize: bool = False,
) -> Analysis:
    """Analyse ``query`` in the active classic session of this process, or in one started with ``settings``.

    Raises NoPlans if this process uses a Spark Connect server, which shows no plans.
    """
    from pyspark.sql import SparkSession

    from medallion.spark.session import spark_session

    session = SparkSession.getActiveSession()
    if session is None:
        if settings.spark_connect:
            raise NoPlans(NO_PLANS)
        session = spark_session(settings.replace(spark_master="local[2]"), "medallion plan")
    return analyser(session)(query, inputs, same_as=same_as, optimize=optimize)


def analyser(spark: "SparkSession") -> SparkAnalyser:
    """Return the analyser of ``spark``. Raises NoPlans if that is a session of a Spark Connect server."""
    from medallion.spark.session import is_connect

    if is_connect(spark):
        raise NoPlans(NO_PLANS)
    if spark not in _ANALYSERS:
        _ANALYSERS.clear()
        _ANALYSERS[spark] = SparkAnalyser(spark)
    return _ANALYSERS[spark]


NO_PLANS = "it is not in refresh.lock, and Spark Connect shows no plans: run medallion plan --write"
_ANALYSERS: "dict[SparkSession, SparkAnalyser]" = {}
