"""Shapes of queries of which changed rows prove something: rows by themselves, by key, looked up, the newest ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medallion.checks.query_tree import (
    BATCH,
    Node,
    column_of,
    common_tables,
    conjuncts,
    equal_columns,
    groups_of,
    has_subquery,
    has_window,
    is_grouped,
    nodes,
    seconds_of,
    table_called,
)
from medallion.checks.select_output import Output
from medallion.checks.unproven import require, require_row_value
from medallion.expect.scopes import Window


@dataclass(frozen=True)
class _Source:
    """What a FROM reads under one name: a placeholder's table, or rows computed from other ones."""

    alias: str
    node: Node


class QueryShape:
    """One query, and the shapes in which it is looked for."""

    def __init__(self, tree: Node) -> None:
        self._tree = tree
        self._common = common_tables(tree)

    def by_rows(self) -> None:
        """Each row of the batch gives rows, or none, by itself."""
        self._require_by_row(self._tree, may_group=True)

    def by_keys(self, columns: Sequence[str]) -> None:
        """Rows of the batch give rows together with those of the same ``columns`` alone."""
        self._keyed(self._tree, BATCH, columns, is_output=False)

    def by_lookup(self, others: Mapping[str, tuple[str, str]]) -> None:
        """Each row of the batch gives rows by itself and the rows of others that it is joined with.

        others: by table, its column and the column of the batch that is equal to it.
        """
        select = _require_select(self._tree)
        self._require_rows_decide(select, may_group=True)
        first, *joined = self._joined(select["from_table"])
        source = first[0]
        self._require_batch(source.node, [column for _, column in others.values()])
        remaining = dict(others)
        for other, kind, condition in joined:
            name = self._looked_up_in(other, remaining)
            key, column = remaining.pop(name)
            require(kind in {"INNER", "LEFT"}, f"a {kind} join brings rows of {name} that no row refers to")
            require_row_value(condition, "a join condition")
            pair = {(other.alias, key.lower()), (source.alias, column.lower())}
            require(
                pair in (equal for equal in map(equal_columns, conjuncts(condition))),
                f"{name} is not joined on {other.alias}.{key} = {source.alias}.{column}",
            )
            if self._table_of(other.node) is None:
                self._keyed(self._query_of(other.node), name, (key,), is_output=True)
        require(not remaining, f"it does not read {', '.join(remaining)}")

    def by_window(self, window: Window) -> None:
        """Rows of a table are read within the window's days of its newest row alone."""
        reads = 0
        for select in nodes(self._tree):
            source: Node = select.get("from_table") or {}
            if select.get("type") != "SELECT_NODE" or self._table_of(source) != window.table:
                continue
            reads += 1
            self._require_own_names(source)
            is_newest = self._is_newest(select, window)
            is_within = any(
                self._is_within(part, _alias_of(source), window) for part in conjuncts(select.get("where_clause"))
            )
            require(
                is_newest or is_within,
                f"{window.table} is read without {window.column} > (SELECT MAX({window.column}) FROM"
                f" {{{window.table}}}) - INTERVAL '{window.days}' DAY",
            )
        placed = sum(self._table_of(node) == window.table for node in nodes(self._tree))
        require(reads and reads == placed, f"{window.table} is joined with what it is read with: read it by itself")

    def _require_by_row(self, node: Node, *, may_group: bool = False) -> None:
        select = _require_select(node)
        self._require_rows_decide(select, may_group=may_group)
        source = select["from_table"]
        if source.get("type") == "SUBQUERY" or self._common_of(source) is not None:
            self._require_by_row(self._query_of(source))
            return
        require(self._table_of(source) == BATCH, "it reads more than the rows of the table")

    def _require_rows_decide(self, select: Node, *, may_group: bool) -> None:
        """Its FROM and WHERE decide alone whether it gives a row; may_group: groups of such rows do as well."""
        require_row_value(select.get("where_clause"), "WHERE")
        require(not select.get("having") and not select.get("qualify"), "HAVING and QUALIFY judge several rows")
        items = select["select_list"]
        require(not has_window(items), "a window function sees several rows")
        require(not has_subquery(items), "SELECT has a subquery")
        has_groups = is_grouped(select)
        require(may_group or not has_groups, "a subquery of it groups rows")
        require(not has_groups or groups_of(select), "an aggregate without GROUP BY gives a row of its own")
        require_row_value(select.get("group_expressions"), "GROUP BY")
        require(not has_groups or len(select.get("group_sets") or [1]) <= 1, "GROUPING SETS give rows of their own")
        require(all(select.get("group_sets") or [1]), "GROUP BY () gives a row of its own")

    def _require_batch(self, source: Node, columns: Sequence[str]) -> None:
        """The rows of the batch, perhaps without copies, with these columns under their own names."""
        self._require_own_names(source)
        if self._table_of(source) == BATCH:
            return
        select = _require_select(self._query_of(source))
        self._require_rows_decide(select, may_group=False)
        output = Output.of(select, {_alias_of(select["from_table"])})
        missing = f"{_alias_of(source)} does not give {', '.join(columns)} as it is in the table"
        require(output.keeps(columns), missing)
        self._require_batch(select["from_table"], columns)

    def _looked_up_in(self, source: _Source, others: Mapping[str, Any]) -> str:
        """The placeholder that a joined source reads, once, and nothing else."""
        read = [name for node in nodes(source.node) if (name := self._table_of(node)) is not None]
        if (common := self._common_of(source.node)) is not None:
            read = [name for node in nodes(self._common[common]) if (name := self._table_of(node)) is not None]
        require(len(read) == 1 and read[0] in others, "it joins what by_change does not name, or names once")
        return read[0]

    def _keyed(self, node: Node, table: str, keys: Sequence[str], *, is_output: bool) -> None:
        """The rows of ``node`` with some values of ``keys`` follow from the rows of ``table`` with these values.

        is_output: whether it must give the keys, under their own names.
        """
        select = _require_select(node)
        wanted = {key.lower() for key in keys}
        aliases = self._keyed_sources(select["from_table"], table, keys)
        require_row_value(select.get("where_clause"), "WHERE")
        output = Output.of(select, aliases)
        renamed = wanted & {name for name, column in output.named.items() if column != name}
        require(not renamed, f"{', '.join(sorted(renamed))} is also the name of something else in it")
        if is_grouped(select):
            grouped = {column for part in groups_of(select) if (column := column_of(part, aliases)) is not None}
            require(wanted <= grouped, f"it is not grouped by {', '.join(keys)}")
            require(len(select.get("group_sets") or [1]) <= 1, "it has several groupings")
        for window in (part for part in nodes(select) if str(part.get("type")).startswith("WINDOW")):
            parts = {column_of(part, aliases) for part in window.get("partitions") or ()}
            require(wanted <= parts, f"a window is not partitioned by {', '.join(keys)}")
        for clause in ("select_list", "having", "qualify", "group_expressions"):
            require(not has_subquery(select.get(clause)), "it has a subquery")
        require(not is_output or output.keeps(keys), f"a subquery of it does not give {', '.join(keys)}")

    def _keyed_sources(self, source: Node, table: str, keys: Sequence[str]) -> set[str]:
        """The aliases of what a FROM reads, each of it keyed and joined with the others by all ``keys``.

        Without those that an outer join may fill with nulls: their keys are not those of the row.
        """
        aliases: list[str] = []
        filled: set[str] = set()
        for found, kind, condition in self._joined(source):
            if self._table_of(found.node) is None:
                self._keyed(self._query_of(found.node), table, keys, is_output=True)
            else:
                require(self._table_of(found.node) == table, "it reads more than one table")
            if aliases:
                require(kind in {"INNER", "LEFT", "SEMI", "ANTI"}, f"a {kind} join does not keep to the same keys")
                require_row_value(condition, "a join condition")
                equal = [pair for part in conjuncts(condition) if (pair := equal_columns(part)) is not None]
                for key in keys:
                    is_joined = any({(found.alias, key.lower()), (alias, key.lower())} in equal for alias in aliases)
                    require(is_joined, f"{found.alias} is not joined on the same {key}")
                if kind != "INNER":
                    filled.add(found.alias)
            aliases.append(found.alias)
        return set(aliases) - filled

    def _is_newest(self, select: Node, window: Window) -> bool:
        """Whether it is SELECT MAX(column) of the whole table."""
        items, aliases = select["select_list"], {_alias_of(select["from_table"])}
        return (
            len(items) == 1
            and items[0].get("type") == "FUNCTION"  # not a window function
            and items[0].get("function_name") == "max"
            and not items[0].get("filter")
            and [column_of(child, aliases) for child in items[0]["children"]] == [window.column.lower()]
            and not any(select.get(clause) for clause in ("where_clause", "group_expressions", "having", "qualify"))
        )

    def _is_within(self, condition: Node, alias: str, window: Window) -> bool:
        """Whether it is column > (SELECT MAX(column) FROM table) - INTERVAL of no more than the window's days.

        alias: of the table whose column it is.
        """
        if condition.get("type") not in {"COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO"}:
            return False
        right = condition["right"]
        if column_of(condition["left"], {alias}) != window.column.lower() or right.get("function_name") != "-":
            return False
        if len(right["children"]) != 2:  # a minus sign
            return False
        newest, span = right["children"]
        if newest.get("type") != "SUBQUERY" or newest.get("subquery_type") != "SCALAR":
            return False
        select = newest["subquery"]["node"]
        is_newest = self._table_of(select.get("from_table")) == window.table and self._is_newest(select, window)
        return is_newest and seconds_of(span) <= window.days * 86_400

    def _joined(self, source: Node) -> list[tuple[_Source, str, Any]]:
        """What a FROM reads, from left to right, with kind and condition of the join; the first has none."""
        if source.get("type") != "JOIN":
            return [(self._source(source), "", None)]
        require(source.get("ref_type") == "REGULAR" and not source.get("using_columns"), "a join is not one with ON")
        return [
            *self._joined(source["left"]),
            (self._source(source["right"]), str(source["join_type"]), source.get("condition")),
        ]

    def _source(self, node: Node) -> _Source:
        require(node.get("type") in {"BASE_TABLE", "SUBQUERY"}, "it reads more than tables and subqueries")
        self._require_own_names(node)
        return _Source(_alias_of(node), node)

    def _table_of(self, node: Any) -> str | None:
        """The placeholder that a node reads; None for any other node."""
        if not isinstance(node, Mapping) or node.get("type") != "BASE_TABLE":
            return None
        name, start = str(node["table_name"]), table_called("")
        return name.removeprefix(start) if name.startswith(start) else None

    def _common_of(self, node: Node) -> str | None:
        name = str(node.get("table_name", "")).lower()
        return name if node.get("type") == "BASE_TABLE" and name in self._common else None

    def _query_of(self, node: Node) -> Node:
        """The query behind a subquery in FROM, or behind the name of a common table expression."""
        query: Node
        if (name := self._common_of(node)) is not None:
            query = self._common[name]["query"]["node"]
        else:
            require(node.get("type") == "SUBQUERY", "it reads more than tables and subqueries")
            query = node["subquery"]["node"]
        return query

    def _require_own_names(self, node: Node) -> None:
        """What a FROM reads has its columns under the names that they have there."""
        common = self._common.get(self._common_of(node) or "", {})
        require(not node.get("column_name_alias") and not common.get("aliases"), "an alias in it renames columns")


def _alias_of(source: Node) -> str:
    """The name by which a query calls what its FROM reads."""
    return str(source.get("alias") or source.get("table_name", "")).lower()


def _require_select(node: Node) -> Node:
    require(node.get("type") == "SELECT_NODE", "it is not one SELECT")
    return node
