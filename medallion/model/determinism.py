"""Find what may give another answer next time: clocks, random values, and results that depend on read order."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from sqlglot import tokenize
from sqlglot.tokenizer_core import Token, TokenType

from medallion.model.plan import FLOATING_TYPES, Expression, Nondeterministic, Plan, Unprovable, in_words

# Functions whose answer depends on time or place. So do all classes whose name begins with Current.
_UNSTABLE = frozenset(
    {
        *("Rand", "Randn", "RandStr", "Uniform", "Uuid", "Shuffle", "Now", "LocalTimestamp", "SessionUser"),
        *("MonotonicallyIncreasingID", "SparkPartitionID", "InputFileName", "InputFileBlockStart"),
        *("InputFileBlockLength", "CallMethodViaReflection", "AesEncrypt", "SparkVersion", "RandomSample"),
        "VariableReference",
    }
)
_MOVING_MOMENTS = {"now", "today", "tomorrow", "yesterday"}
_MOMENTS_OF_TEXT = ("date", "timestamp", "timestamp_ntz")
# What gives no text, so that a cast of it to a moment reads none.
_NO_TEXT = re.compile(r"(?!DateFormat)\w*(Date|Time|Day|Month|Interval|Trunc)\w*")
# What makes one row of several, or a value of several: of texts that a collation holds equal it takes any.
_UNITES = frozenset({"Aggregate", "Distinct", "Intersect", "Except", "Union", "Expand"})
# Functions of a user's own, and what is not judged row by row, whatever it is called.
_UNKNOWN = frozenset({"ScalaUDF", "PythonUDF", "PythonUDAF", "PythonUDTF", "ApplyFunctionExpression", "V2Aggregator"})
_LISTS = frozenset({"CollectList", "CollectSet"})
_ANY_ROW = frozenset({"First", "Last", "AnyValue", "FirstValue", "LastValue"})
# Aggregates that depend on the order in which rows are read; over a window that order is defined.
ORDER_DEPENDENT = _LISTS | _ANY_ROW | {"ListAgg", "Mode"}
BY = frozenset({"MaxBy", "MinBy"})
# Approximations, which differ with the order in which partial results are merged.
_ESTIMATES = frozenset({"ApproximatePercentile", "HistogramNumeric"})
_SUMS = frozenset({"Sum", "Average"})
_EXACT = frozenset(
    {
        *(
            "Sum",
            "Average",
            "Count",
            "CountIf",
            "Min",
            "Max",
            "BoolAnd",
            "BoolOr",
            "BitAndAgg",
            "BitOrAgg",
            "BitXorAgg",
        ),
        *("Percentile", "PercentileCont", "PercentileDisc", "Median", "HyperLogLogPlusPlus", "RegrCount", "PivotFirst"),
    }
)
# Sums of squares and products, which Spark computes in DOUBLE.
_MOMENTS = re.compile(r"(Stddev|Variance|Covariance|Covar|Corr|Skewness|Kurtosis|Regr|Central)\w*")


@cache
def _tokens(query: str) -> tuple[Token, ...]:
    return tuple(tokenize(query, dialect="spark"))


def prove_functions(plan: Plan, query: str, *, known: bool) -> None:
    """Raise Nondeterministic, naming the function, where one gives another answer another time.

    Args:
        plan: The analysed query.
        query: Its text: Spark replaces ``TIMESTAMP 'now'`` when it reads it.
        known: Whether every function must be known; else Unprovable is raised.
    """
    _require_fixed_moments(query)
    _require_no_try(query)
    _require_no_collations(plan, query, known=known)
    if known:
        _require_no_sessions(query)
        _require_no_escapes(query)
    for node in plan.root.walk():
        if node.kind == "Sample":
            share = float(node.detail["upperBound"]) - float(node.detail["lowerBound"])
            raise Nondeterministic(f"TABLESAMPLE ({share * 100:g} PERCENT) is not deterministic")
        if known and not node.is_known:
            raise Unprovable(f"it has {in_words(node.kind)}, which is not known to be refreshed rightly")
        for expression in node.expressions:
            for part in expression.walk():
                _prove_function(part, known=known)
    if not plan.is_deterministic:
        raise Nondeterministic("it is not deterministic, as Spark says")


def _require_fixed_moments(query: str) -> None:
    for token in _tokens(query):
        words = token.text.lower().split()
        if token.token_type.name.endswith("STRING") and words and words[0] in _MOVING_MOMENTS:
            raise Nondeterministic(f"'{token.text}' is not deterministic")


def _require_no_try(query: str) -> None:
    """Raise Nondeterministic for TRY_SUM and TRY_AVG, which no plan tells from SUM and AVG: whether a sum on the way
    overflows, and makes it null, goes by the order of reading."""
    for token, following in pairwise(_tokens(query)):
        if token.text.lower() in {"try_sum", "try_avg"} and following.token_type == TokenType.L_PAREN:
            raise Nondeterministic(
                f"{token.text.upper()} is not deterministic where it overflows: write {token.text[4:].upper()}"
            )


def _require_no_collations(plan: Plan, query: str, *, known: bool) -> None:
    """Raise for a collation, which plans leave out of types: by it texts that differ are equal, and of these one
    stands for all. No input has one, so that the query would say so."""
    tokens = _tokens(query)
    if not any(token.text.lower() == "collate" and token.token_type != TokenType.STRING for token in tokens):
        return
    remedy = "write LOWER() or UPPER() of the text"
    if known:
        raise Unprovable(f"it has COLLATE, by which texts that differ are equal: {remedy}")
    if any(node.kind in _UNITES for node in plan.root.walk()):
        raise Nondeterministic(f"COLLATE is not deterministic where texts that differ are equal: {remedy}")


def _require_no_sessions(query: str) -> None:
    """Raise Unprovable for a session window: where a session ends follows from several rows, and no plan shows it."""
    tokens = _tokens(query)
    for token, following in pairwise(tokens):
        if token.text.lower() == "session_window" and following.token_type == TokenType.L_PAREN:
            raise Unprovable("it has SESSION_WINDOW, whose sessions are not known to be refreshed rightly")


def _require_no_escapes(query: str) -> None:
    """Raise Unprovable for LIKE with ESCAPE: plans leave its character out, so that two of them look alike."""
    for token, following in pairwise(_tokens(query)):
        if token.text.lower() == "escape" and following.token_type == TokenType.STRING:
            raise Unprovable("it has ESCAPE, which no plan shows: escape by a backslash, or use STARTSWITH or RLIKE")


def _prove_function(part: Expression, *, known: bool) -> None:
    is_moment = (part.kind == "Cast" and part.type in _MOMENTS_OF_TEXT) or part.kind.startswith("ParseTo")
    if is_moment and any(map(_is_made_text, part.children)):
        raise Nondeterministic(f"{part} is not deterministic where it is read as 'now': write the text as it is")
    if part.kind in _UNSTABLE or (part.kind.startswith("Current") and part.kind != "CurrentRow"):
        raise Nondeterministic(f"{part} is not deterministic")
    if known and (part.kind in _UNKNOWN or not part.package.startswith("org.apache.spark.sql.catalyst")):
        raise Unprovable(f"{part} is not known to be deterministic")


def _is_made_text(tree: Expression) -> bool:
    """Whether it may be a text of no column: Spark computes that first, and reads 'now' and 'today' in it."""
    if tree.columns or any(part.plan is not None or "Lambda" in part.kind for part in tree.walk()):
        return False
    if tree.kind == "Literal":
        words = (tree.value or "").lower().split()
        return tree.type == "string" and bool(words) and words[0] in _MOVING_MOMENTS
    if tree.kind == "Cast":
        return tree.type == "string" and _is_made_text(tree.children[0])
    return not _NO_TEXT.fullmatch(tree.kind) and any(part.type == "string" for part in tree.walk())


def prove_aggregates(plan: Plan, *, known: bool) -> None:
    """Raise Nondeterministic, naming the aggregate, where it depends on the order in which rows are read.

    known: whether every aggregate must be known; else Unprovable is raised.
    """
    for node in plan.root.walk():
        for expression in node.expressions:
            for part, parents in _with_parents(expression, ()):
                if part.kind == "AggregateExpression":
                    _prove_aggregate(part, parents, is_window=node.kind == "Window", known=known)


def _with_parents(
    tree: Expression, parents: tuple[Expression, ...]
) -> Iterator[tuple[Expression, tuple[Expression, ...]]]:
    yield tree, parents
    for child in tree.children:
        yield from _with_parents(child, (*parents, tree))


def _prove_aggregate(aggregate: Expression, parents: tuple[Expression, ...], *, is_window: bool, known: bool) -> None:
    function = aggregate.children[0]
    if function.kind in _ESTIMATES:
        arguments = ", ".join(map(str, function.children[:2]))
        instead = f": write PERCENTILE({arguments})" if function.kind == "ApproximatePercentile" else ""
        raise Nondeterministic(f"{aggregate} is not deterministic{instead}")
    if is_window:
        return
    if function.kind in ORDER_DEPENDENT and not _is_sorted(function, parents):
        raise Nondeterministic(f"{aggregate} is not deterministic{_remedy(aggregate, function)}")
    if why := floating_sum(aggregate):
        raise Nondeterministic(f"{aggregate} is not deterministic: {why}")
    if known and function.kind not in _EXACT | ORDER_DEPENDENT | BY:
        raise Unprovable(f"{aggregate} is not known to be deterministic")


_FLOATING_REMEDY = "a sum of floating-point numbers depends on the order of reading; cast them to DECIMAL"


def floating_sum(aggregate: Expression) -> str:
    """Say why its sum differs in its last digits with the order of reading, and what to write; empty if it does not."""
    function = aggregate.children[0]
    if function.kind == "Average" and aggregate.input_type == "bigint":
        # Of smaller integers the sum is exact: four million of the largest INT add up to less than 2^53.
        return "Spark adds BIGINT up in DOUBLE, which depends on the order of reading; cast it to DECIMAL(19, 0) or INT"
    if function.kind in _SUMS:
        return _FLOATING_REMEDY if aggregate.input_type in FLOATING_TYPES else ""
    if _MOMENTS.fullmatch(function.kind) and function.kind != "RegrCount":
        return (
            "Spark computes it in DOUBLE, which depends on the order of reading; compute it from COUNT(x), SUM(x) and"
            " SUM(x * x) of a DECIMAL x"
        )
    return ""


def _is_sorted(function: Expression, parents: tuple[Expression, ...]) -> bool:
    """Whether its result is put into an order by all of its values: SORT_ARRAY(COLLECT_LIST(x)) and the like."""
    if function.kind == "ListAgg":
        order = [item.children[0] for item in function.children if item.kind == "SortOrder"]
        value = function.children[0]
        return bool(order) and order[0].key in {value.key, value.unalias().key, _uncast(value).key}
    return function.kind in _LISTS and bool(parents) and parents[-1].kind == "SortArray"


def _uncast(tree: Expression) -> Expression:
    """What a number is as a text: another one for another number."""
    return tree.children[0] if tree.kind == "Cast" and tree.type == "string" else tree


def _remedy(aggregate: Expression, function: Expression) -> str:
    """What to write instead, where there is something."""
    value = _uncast(function.children[0]) if function.children else ""
    if function.kind in _LISTS:
        return f": write SORT_ARRAY({aggregate})"
    if function.kind == "ListAgg":
        return f": add WITHIN GROUP (ORDER BY {value})"
    if function.kind in _ANY_ROW:
        return f": write MAX({value}), or MAX_BY({value}, STRUCT(...)) with the key columns in it"
    return ""
