"""Find what may give a different result on the next run: clocks, random values, and dependence on the read order."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from sqlglot import tokenize
from sqlglot.tokenizer_core import Token, TokenType

from medallion.model.plan import FLOATING_TYPES, Expression, Nondeterministic, Plan, Unprovable, in_words

# Functions whose result depends on time, session or machine. So do all classes whose name begins with Current, except
# CurrentRow.
_CLOCKS = frozenset({"Now", "LocalTimestamp", "CurrentDate", "CurrentTime", "CurrentTimestamp"})
_RANDOM = frozenset({"Rand", "Randn", "RandStr", "Uniform", "Uuid", "MonotonicallyIncreasingID"})
_UNSTABLE = (
    _CLOCKS
    | _RANDOM
    | {
        *("Shuffle", "SessionUser", "SparkPartitionID", "InputFileName", "InputFileBlockStart"),
        *("InputFileBlockLength", "CallMethodViaReflection", "AesEncrypt", "SparkVersion", "RandomSample"),
        "VariableReference",
    }
)
_COLLATION = re.compile(r"\bcollate\s", re.IGNORECASE)
_MOVING_MOMENTS = {"now", "today", "tomorrow", "yesterday"}
_MOMENTS_OF_TEXT = ("date", "timestamp", "timestamp_ntz")
# Expressions that never return text, so that a cast of them to a date or timestamp parses no text.
_NO_TEXT = re.compile(r"(?!DateFormat)\w*(Date|Time|Day|Month|Interval|Trunc)\w*")
# Operators that merge several rows or values into one; of texts that are equal under a collation they keep any.
_UNITES = frozenset({"Aggregate", "Distinct", "Intersect", "Except", "Union", "Expand"})
# User-defined functions and functions of catalogs, about which nothing is known.
_UNKNOWN = frozenset({"ScalaUDF", "PythonUDF", "PythonUDAF", "PythonUDTF", "ApplyFunctionExpression", "V2Aggregator"})
_LISTS = frozenset({"CollectList", "CollectSet"})
_ANY_ROW = frozenset({"First", "Last", "AnyValue", "FirstValue", "LastValue"})
# Aggregates that depend on the order in which rows are read; over a window this order is defined.
ORDER_DEPENDENT = _LISTS | _ANY_ROW | {"ListAgg", "Mode"}
BY = frozenset({"MaxBy", "MinBy"})
# Approximations, which depend on the order in which partial results are merged.
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
# Aggregates based on sums of squares and products, which Spark computes in DOUBLE.
_MOMENTS = re.compile(r"(Stddev|Variance|Covariance|Covar|Corr|Skewness|Kurtosis|Regr|Central)\w*")


@cache
def _tokens(query: str) -> tuple[Token, ...]:
    return tuple(tokenize(query, dialect="spark"))


def _called(query: str) -> list[str]:
    """Return the words of a query, in small letters, that are followed by an opening parenthesis."""
    return [
        token.text.lower() for token, following in pairwise(_tokens(query)) if following.token_type == TokenType.L_PAREN
    ]


def prove_functions(plan: Plan, query: str, *, known: bool) -> None:
    """Raise Nondeterministic, naming the function, if a function may give a different result on another run.

    Args:
        plan: The analysed query.
        query: The text of the query, because Spark replaces ``TIMESTAMP 'now'`` when it parses the text.
        known: Whether to raise Unprovable for every operator or function that is not known.
    """
    _require_fixed_moments(query)
    _require_function_names(query)
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
                _prove_function(part, query, known=known)
    if not plan.is_deterministic:
        raise Nondeterministic("it is not deterministic, as Spark says")


def _require_fixed_moments(query: str) -> None:
    for token in _tokens(query):
        words = token.text.lower().split()
        if _is_string(token) and words and words[0] in _MOVING_MOMENTS:
            raise Nondeterministic(f"'{token.text}' is not deterministic")


def _require_function_names(query: str) -> None:
    """Raise Nondeterministic for IDENTIFIER(), which may hide a function that is only found by its name in the text."""
    if "identifier" in _called(query):
        raise Nondeterministic("IDENTIFIER() hides what it names, which may not be deterministic: write the name")


def _require_no_try(query: str) -> None:
    """Raise Nondeterministic for TRY_SUM and TRY_AVG, which plans do not distinguish from SUM and AVG.

    Whether an intermediate sum overflows, which makes the result null, depends on the order of reading.
    """
    for name in _called(query):
        if name in {"try_sum", "try_avg"}:
            raise Nondeterministic(f"{name.upper()} is not deterministic where it overflows: write {name[4:].upper()}")


def _require_no_collations(plan: Plan, query: str, *, known: bool) -> None:
    """Raise for a collation, which plans leave out of types.

    Under a collation different texts are equal, and any one of them represents the others. No input has a collation, so
    one can only come from the text of the query.
    """
    if not any(map(_names_collation, _tokens(query))):
        return
    remedy = "write LOWER() or UPPER() of the text"
    if known:
        raise Unprovable(f"it has COLLATE, by which texts that differ are equal: {remedy}")
    if any(node.kind in _UNITES for node in plan.root.walk()):
        raise Nondeterministic(f"COLLATE is not deterministic where texts that differ are equal: {remedy}")


def _names_collation(token: Token) -> bool:
    """Return whether it is COLLATE, or a string with it, as of a schema that FROM_JSON reads."""
    if _is_string(token):
        return _COLLATION.search(token.text) is not None
    return token.text.lower() == "collate"


def _is_string(token: Token) -> bool:
    return token.token_type.name.endswith("STRING")


def _require_no_sessions(query: str) -> None:
    """Raise Unprovable for a session window: the end of a session depends on several rows, and no plan shows it."""
    if "session_window" in _called(query):
        raise Unprovable("it has SESSION_WINDOW, whose sessions are not known to be refreshed rightly")


def _require_no_escapes(query: str) -> None:
    """Raise Unprovable for LIKE with an escape character: plans omit it, so different patterns look alike.

    It stands behind ESCAPE, or is the third argument of LIKE called as a function.
    """
    tokens = _tokens(query)
    for place, (token, following) in enumerate(pairwise(tokens)):
        is_clause = token.text.lower() == "escape" and _is_string(following)
        is_call = token.text.lower() in {"like", "ilike"} and following.token_type == TokenType.L_PAREN
        if is_clause or (is_call and _count_arguments(tokens[place + 1 :]) > 2):
            raise Unprovable(
                "it has LIKE with an escape character, which no plan shows: escape by a backslash, or use STARTSWITH or"
                " RLIKE"
            )


def _count_arguments(tokens: Sequence[Token]) -> int:
    """Return how many arguments the parentheses have that the first token opens."""
    depth, count = 0, 1
    for token in tokens:
        if token.token_type == TokenType.L_PAREN:
            depth += 1
        elif token.token_type == TokenType.R_PAREN:
            depth -= 1
            if not depth:
                break
        elif token.token_type == TokenType.COMMA and depth == 1:
            count += 1
    return count


def _prove_function(part: Expression, query: str, *, known: bool) -> None:
    is_moment = (part.kind == "Cast" and part.type in _MOMENTS_OF_TEXT) or part.kind.startswith("ParseTo")
    if is_moment and any(map(_is_made_text, part.children)):
        raise Nondeterministic(f"{part} is not deterministic where it is read as 'now': write the text as it is")
    if part.kind in _UNSTABLE or (part.kind.startswith("Current") and part.kind != "CurrentRow"):
        raise Nondeterministic(f"{_without_seed(part, query)} is not deterministic{_instead_of(part)}")
    if known and (part.kind in _UNKNOWN or not part.package.startswith("org.apache.spark.sql.catalyst")):
        raise Unprovable(f"{part} is not known to be deterministic")


def _instead_of(part: Expression) -> str:
    """Return what to write instead of a clock or a random value; empty if there is no alternative."""
    if part.kind in _CLOCKS:
        return ": write the newest event time of an input, such as (SELECT MAX(event_timestamp) FROM ...)"
    if part.kind in _RANDOM:
        return ": compute it in the source, or from a hash of the key, such as XXHASH64(order_id)"
    return ""


def _without_seed(part: Expression, query: str) -> str:
    """Return a function as its author wrote it: Spark adds a seed to one without."""
    return re.sub(r"(, )?(-?\d+)\)$", lambda seed: seed[0] if seed[2] in query else ")", str(part))


def _is_made_text(tree: Expression) -> bool:
    """Return whether ``tree`` may be a constant text: Spark folds it first, then interprets 'now' or 'today' in it."""
    if tree.columns or any(part.plan is not None or "Lambda" in part.kind for part in tree.walk()):
        return False
    if tree.kind == "Literal":
        words = (tree.value or "").lower().split()
        return tree.type == "string" and bool(words) and words[0] in _MOVING_MOMENTS
    if tree.kind == "Cast":
        return tree.type == "string" and _is_made_text(tree.children[0])
    return not _NO_TEXT.fullmatch(tree.kind) and any(part.type == "string" for part in tree.walk())


def prove_aggregates(plan: Plan, *, known: bool) -> None:
    """Raise Nondeterministic, naming the aggregate, if one depends on the order in which rows are read.

    known: whether to raise Unprovable for every aggregate that is not known.
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
    """Say why the last digits of a sum depend on the read order, and what to write instead; empty if they do not."""
    function = aggregate.children[0]
    if function.kind == "Average" and aggregate.input_type == "bigint":
        # Sums of smaller integers are exact: four million times the largest INT is less than 2^53.
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
    """Return whether the result is sorted by all its values, as in SORT_ARRAY(COLLECT_LIST(x))."""
    if function.kind == "ListAgg":
        order = [item.children[0] for item in function.children if item.kind == "SortOrder"]
        value = function.children[0]
        return bool(order) and order[0].key in {value.key, value.unalias().key, _uncast(value).key}
    return function.kind in _LISTS and bool(parents) and parents[-1].kind == "SortArray"


def _uncast(tree: Expression) -> Expression:
    """Return the value under a cast to text, as different values have different texts."""
    return tree.children[0] if tree.kind == "Cast" and tree.type == "string" else tree


def _remedy(aggregate: Expression, function: Expression) -> str:
    """Return what to write instead; empty if there is no alternative."""
    value = _uncast(function.children[0]) if function.children else ""
    if function.kind in _LISTS:
        return f": write SORT_ARRAY({aggregate})"
    if function.kind == "ListAgg":
        return f": add WITHIN GROUP (ORDER BY {value})"
    if function.kind in _ANY_ROW:
        return f": write MAX({value}), or MAX_BY({value}, STRUCT(...)) with the key columns in it"
    return ""
