"""What in a query need not give the same answer twice: clocks, chance, and what goes by the order of reading."""

from sqlglot import exp

from medallion.model.parsed_query import is_window_function

# What gives another answer another time.
_UNSTABLE = (
    *(exp.Rand, exp.Randn, exp.Uuid, exp.Shuffle, exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime),
    *(exp.Localtimestamp, exp.CurrentUser, exp.SessionUser),
)
_UNSTABLE_NAMES = {
    *("monotonically_increasing_id", "spark_partition_id", "input_file_name", "input_file_block_start"),
    *("input_file_block_length", "now", "user", "current_timezone", "randstr", "uniform", "current_database"),
}
_MOVING_MOMENTS = {"now", "today", "tomorrow", "yesterday"}
# What estimates, and differs with the order in which its parts are put together.
_ESTIMATES = (exp.ApproxQuantile, exp.ApproxTopK, exp.ApproxTopKAccumulate, exp.ApproxTopKCombine)
_ESTIMATE_NAMES = {"histogram_numeric"}
_LISTS = (exp.ArrayAgg, exp.ArrayUniqueAgg)
_ANY_ROW = (exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.AnyValue)
# What depends on the order in which rows happen to be read; over a window they have an order of their own.
ORDER_DEPENDENT = (*_ANY_ROW, *_LISTS, exp.GroupConcat, exp.Mode)


def unstable(tree: exp.Expr) -> str | None:
    """Say of the first function that need not give the same answer twice that it does not; None if there is none."""
    if sample := tree.find(exp.TableSample):
        return f"{sample.sql('spark')} is not deterministic"
    for text in tree.find_all(exp.Literal):  # read as a moment where one is wanted, without a function
        if text.is_string and text.this.split()[:1] and text.this.split()[0].lower() in _MOVING_MOMENTS:
            return f"{text.sql('spark')} is not deterministic"
    for node in tree.find_all(exp.Func):
        if _is_unstable(node):
            return f"{node.sql('spark')} is not deterministic{_remedy(node)}"
    return None


def unknown_function(tree: exp.Expr) -> str | None:
    """The first function that is not known here, which might be anything."""
    function = tree.find(exp.Anonymous, exp.AnonymousAggFunc)
    return None if function is None else str(function.sql("spark"))


def _is_unstable(node: exp.Func) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _UNSTABLE_NAMES | _ESTIMATE_NAMES
    if isinstance(node, (*_UNSTABLE, *_ESTIMATES)):
        return True
    return isinstance(node, ORDER_DEPENDENT) and not is_window_function(node) and not _is_sorted(node)


def _is_sorted(node: exp.Func) -> bool:
    """Whether its result is put into an order by all of its values: SORT_ARRAY(COLLECT_LIST(x)) and the like."""
    if isinstance(node, exp.GroupConcat):
        order = node.this
        return isinstance(order, exp.Order) and [item.this for item in order.expressions][:1] == [order.this]
    parent = node.parent
    while isinstance(parent, exp.Filter):
        parent = parent.parent
    return isinstance(node, _LISTS) and isinstance(parent, exp.ArraySort) and not parent.expression


def _remedy(node: exp.Func) -> str:
    """What to write instead, where there is something."""
    value = node.this.sql("spark") if isinstance(node.this, exp.Expr) else ""
    if isinstance(node, exp.ApproxQuantile):
        return f": write PERCENTILE({value}, {node.args['quantile'].sql('spark')})"
    if isinstance(node, _LISTS):
        return f": write SORT_ARRAY({node.sql('spark')})"
    if isinstance(node, exp.GroupConcat):
        return f": add WITHIN GROUP (ORDER BY {value})"
    if isinstance(node, _ANY_ROW):
        return f": write MAX({value}), or MAX_BY({value}, STRUCT(...)) with the key columns in it"
    return ""
