"""Queries of expectations as DuckDB parses them: their tables, functions, and whether they always answer alike.

DuckDB runs these queries, so DuckDB says what is in them: its parser gives the tree, and its catalog the kind and
stability of each function.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from string import Formatter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Node = Mapping[str, Any]
BATCH = "batch"
_TABLE = "placeholder__"  # begins the name that stands for a placeholder: no table or common table expression has it

# Their result depends on the order in which rows are read, unless that order is total, which a parser cannot tell.
_BY_READING_ORDER = frozenset(
    {"any_value", "arbitrary", "arg_max", "arg_min", "argmax", "argmin", "array_agg", "first", "group_concat", "last"}
    | {"list", "listagg", "max_by", "min_by", "mode", "string_agg", "approx_quantile", "approx_top_k"}
    | {"reservoir_quantile", "histogram"}
)
_RANKED_BY_ROW = frozenset(
    {"WINDOW_ROW_NUMBER", "WINDOW_FIRST_VALUE", "WINDOW_LAST_VALUE", "WINDOW_NTH_VALUE", "WINDOW_LEAD", "WINDOW_LAG"}
    | {"WINDOW_NTILE"}
)
# Names that stand for a function where no column has them, and texts that stand for a moment.
_VALUE_FUNCTIONS = frozenset(
    {"current_catalog", "current_database", "current_date", "current_role", "current_schema", "current_time"}
    | {"current_timestamp", "current_user", "localtime", "localtimestamp", "session_user", "user"}
)
_MOVING_MOMENTS = frozenset({"now", "today", "tomorrow", "yesterday"})
_SECONDS_OF_UNIT = {"to_seconds": 1, "to_minutes": 60, "to_hours": 3600, "to_days": 86_400, "to_weeks": 7 * 86_400}
_PURE_TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})


class Unreadable(ValueError):
    """DuckDB does not parse a query as one SELECT."""


def parse(query: str) -> Node:
    """Return the tree of ``query``, in which a table is called as ``table_called`` says of its placeholder.

    Raises Unreadable.
    """
    try:
        names = {name for _, name, _, _ in Formatter().parse(query) if name is not None}
        bound = query.format(**{name: table_called(name) for name in names})
    except (ValueError, LookupError) as error:
        raise Unreadable(f"its placeholders cannot be read: {error}") from None
    text = _connection().execute("SELECT json_serialize_sql(?)", [bound.strip().rstrip(";")]).fetchall()[0][0]
    parsed = json.loads(text)
    if parsed["error"] or len(parsed["statements"]) != 1:
        raise Unreadable(parsed.get("error_message", "it is not one SELECT"))
    node: Node = parsed["statements"][0]["node"]
    return node


def parse_expression(text: str) -> Node:
    """Return the tree of one SQL expression. Raises Unreadable."""
    select = parse(f"SELECT {text.replace('{', '{{').replace('}', '}}')}")
    is_one = len(select.get("select_list", ())) == 1 and select.get("from_table", {}).get("type") == "EMPTY"
    if not is_one or select.get("modifiers"):  # as DISTINCT, which would apply to the values of an aggregate around it
        raise Unreadable("it is not one expression")
    node: Node = select["select_list"][0]
    return node


def table_called(placeholder: str) -> str:
    """Return the name in a tree of the table that a query calls ``{placeholder}``."""
    return _TABLE + placeholder


def nodes(tree: Any) -> Iterator[Node]:
    """Yield every node of a tree: what has a kind of its own."""
    if isinstance(tree, Mapping):
        if isinstance(tree.get("type"), str):
            yield tree
        for part in tree.values():
            yield from nodes(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from nodes(part)


def common_tables(tree: Node) -> dict[str, Node]:
    """Return each common table expression of a tree, by name: its query, and the aliases that rename its columns.

    Raises Unreadable where two share a name.
    """
    found: dict[str, Node] = {}
    for node in nodes(tree):
        for entry in (node.get("cte_map") or {}).get("map") or ():
            name = entry["key"].lower()
            if name in found or name.startswith(_TABLE):
                raise Unreadable(f"two tables in it are called {name}")
            found[name] = entry["value"]
    return found


def instability(tree: Node) -> str | None:
    """Say what in a query need not answer alike twice over the same rows; None when nothing does."""
    for name in _unnamed_tables(tree, frozenset()):
        return f"it reads {name} without naming it in braces"
    for node in nodes(tree):
        if (reason := _instability_of(node)) is not None:
            return reason
    return None


def _unnamed_tables(tree: Any, known: frozenset[str]) -> Iterator[str]:
    """Yield the tables that DuckDB would look up in its catalog. known: the common table expressions in scope."""
    if isinstance(tree, list):
        for part in tree:
            yield from _unnamed_tables(part, known)
    if not isinstance(tree, Mapping):
        return
    for entry in (tree.get("cte_map") or {}).get("map") or ():
        yield from _unnamed_tables(entry["value"], known)
        known |= {entry["key"].lower()}  # for those after it, and for the query, but not for itself
    name = str(tree.get("table_name", ""))
    is_known = name.lower() in known and not tree.get("schema_name") and not tree.get("catalog_name")
    if tree.get("type") == "BASE_TABLE" and not name.startswith(_TABLE) and not is_known:
        yield name
    for key, part in tree.items():
        if key != "cte_map":
            yield from _unnamed_tables(part, known)


def _instability_of(node: Node) -> str | None:
    kind = node.get("type")
    if node.get("sample"):
        return "it reads a sample"
    if kind == "LIMIT_MODIFIER":
        return "LIMIT picks rows"
    if kind == "DISTINCT_MODIFIER" and node.get("distinct_on_targets"):
        return "DISTINCT ON picks rows"
    if kind in {"SHOW_REF", "PIVOT", "COLUMN_DATA", "DELIM_GET", "RECURSIVE_CTE_NODE", "STATEMENT_NODE"}:
        return f"it has a {kind.split('_')[0].lower()} clause"
    if kind == "TABLE_FUNCTION" and node["function"].get("function_name") not in _PURE_TABLE_FUNCTIONS:
        return f"it reads {node['function'].get('function_name')}()"
    if kind == "COLUMN_REF" and len(names := node["column_names"]) == 1 and names[0].lower() in _VALUE_FUNCTIONS:
        return f"{names[0]} is another at another time"
    if kind == "VALUE_CONSTANT" and _is_moving_moment(node["value"].get("value")):
        return f"'{node['value']['value']}' is another moment at another time"
    if str(kind).startswith("WINDOW"):
        by_rows = {node.get("start"), node.get("end")} & {"EXPR_PRECEDING_ROWS", "EXPR_FOLLOWING_ROWS"}
        if kind in _RANKED_BY_ROW or by_rows or "CURRENT_ROW_ROWS" in {node.get("start"), node.get("end")}:
            return f"{node.get('function_name')}() goes by the order of rows"
    if kind == "FUNCTION":
        return _instability_of_function(str(node["function_name"]).lower())
    return None


def _is_moving_moment(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lower() in _MOVING_MOMENTS


@cache
def _instability_of_function(name: str) -> str | None:
    if name in _BY_READING_ORDER:
        return f"{name}() goes by the order in which rows are read"
    kinds = _functions().get(name)
    if not kinds:
        return f"{name}() is not known"
    for kind, stability, definition in kinds:
        if kind == "macro":
            reason = None if definition is None or definition == name else instability(_parse_macro(definition))
            if reason:
                return f"{name}(): {reason}"
        elif stability != "CONSISTENT":
            return f"{name}() need not answer alike twice"
    return None


def _parse_macro(definition: str) -> Node:
    try:
        return parse_expression(definition)
    except Unreadable:
        return {"type": "SHOW_REF"}  # nothing is known of it


def has_aggregate(expression: Any) -> bool:
    """Whether an expression has an aggregate that is not over a window."""
    return any(
        node.get("type") == "GROUPING_FUNCTION"
        or (node.get("type") == "FUNCTION" and _is_aggregate(str(node["function_name"]).lower()))
        for node in nodes(expression)
    )


def has_window(expression: Any) -> bool:
    """Whether an expression has a window function."""
    return any(str(node.get("type")).startswith("WINDOW") for node in nodes(expression))


def has_subquery(expression: Any) -> bool:
    """Whether an expression has a query in it."""
    return any(node.get("type") == "SUBQUERY" for node in nodes(expression))


@cache
def _is_aggregate(name: str) -> bool:
    """Whether a function is an aggregate, or a macro made of one, as geomean()."""
    return any(
        kind == "aggregate" or (kind == "macro" and definition is not None and has_aggregate(_parse_macro(definition)))
        for kind, _, definition in _functions().get(name, ())
    )


def is_grouped(select: Node) -> bool:
    """Whether a SELECT makes groups of rows, or one row of all."""
    by_all = select.get("aggregate_handling") == "FORCE_AGGREGATES"
    items = [select["select_list"], select.get("having"), select.get("qualify")]
    return bool(select.get("group_expressions")) or by_all or has_aggregate(items)


def groups_of(select: Node) -> list[Node]:
    """Return what a SELECT groups by; for GROUP BY ALL, the items without an aggregate."""
    if select.get("aggregate_handling") == "FORCE_AGGREGATES":
        return [item for item in select["select_list"] if not has_aggregate(item)]
    return [*(select.get("group_expressions") or ())]


def column_of(node: Any, aliases: Iterable[str]) -> str | None:
    """Return the column that a node is, in lower case; None for anything else, as for a field of a struct.

    aliases: those that it may be qualified with.
    """
    if not isinstance(node, Mapping) or node.get("type") != "COLUMN_REF":
        return None
    names = [str(name).lower() for name in node["column_names"]]
    if len(names) > 2 or (len(names) == 2 and names[0] not in aliases):
        return None
    return names[-1]


def conjuncts(condition: Any) -> Iterator[Node]:
    """Yield the conditions that AND joins."""
    if not condition:
        return
    if condition.get("type") == "CONJUNCTION_AND":
        for part in condition["children"]:
            yield from conjuncts(part)
    else:
        yield condition


def equal_columns(condition: Node) -> set[tuple[str, str]] | None:
    """Return the two qualified columns that a condition makes equal; None for any other condition."""
    if condition.get("type") != "COMPARE_EQUAL":
        return None
    sides = (condition["left"], condition["right"])
    if not all(side.get("type") == "COLUMN_REF" and len(side["column_names"]) == 2 for side in sides):
        return None
    return {(side["column_names"][0].lower(), side["column_names"][1].lower()) for side in sides}


def seconds_of(interval: Node) -> float:
    """Return the seconds of an interval of a constant in one unit; infinite for any other."""
    unit = _SECONDS_OF_UNIT.get(str(interval.get("function_name")))
    if unit is None:
        return float("inf")
    (value,) = interval["children"]
    while value.get("type") == "OPERATOR_CAST" or value.get("function_name") == "trunc":  # of INTERVAL '24' HOUR
        value = value["child"] if "child" in value else value["children"][0]
    if value.get("type") != "VALUE_CONSTANT":
        return float("inf")
    try:
        return unit * float(value["value"]["value"])
    except (TypeError, ValueError):
        return float("inf")


@cache
def _functions() -> Mapping[str, list[tuple[str, str | None, str | None]]]:
    """By name, kind, stability and macro definition of every function of DuckDB; no macro that calls its namesake."""
    found: dict[str, list[tuple[str, str | None, str | None]]] = {}
    query = "SELECT DISTINCT function_name, function_type, stability, macro_definition FROM duckdb_functions()"
    for name, kind, stability, definition in _connection().execute(query).fetchall():
        is_wrapper = kind == "macro" and re.search(rf"\b{re.escape(name)}\(", definition or "")
        if kind in {"scalar", "aggregate", "macro"} and not is_wrapper:
            found.setdefault(str(name).lower(), []).append((kind, stability, definition))
    return found


@cache
def _connection() -> "DuckDBPyConnection":
    import duckdb

    return duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
