"""Splitting a query at the common table expressions whose sums are kept: two halves of one definition."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import sqlglot
from sqlglot import exp

from medallion.model.parsed_query import aggregates, parse
from medallion.model.table import Additive, Table
from medallion.spark.delta_reads import SIDE

ROWS = "_rows"  # how many input rows stand behind a group: it goes when none is left


@dataclass(frozen=True)
class Part:
    """A kept common table expression over one input, or over another part, whose groups then are its rows.

    query: keys and sums of any rows of ``input``, with ROWS and, by column in ``values``, the number of values of a
    nullable sum. query_by_commit: the same per commit and side, since only the rows of one commit are complete. Both
    name tables in braces, as a table's own query does.
    """

    input: str
    query: str
    query_by_commit: str
    keys: tuple[str, ...]
    sums: tuple[str, ...]
    values: Mapping[str, str]

    @property
    def counters(self) -> tuple[str, ...]:
        """All columns that add up."""
        return (*self.sums, *self.values.values(), ROWS)


@dataclass(frozen=True)
class Split:
    """A query in two: the parts that are kept, and the rest, which reads ``sums`` of them and the remaining inputs."""

    parts: Mapping[str, Part]
    rest: str
    inputs: tuple[str, ...]
    sums: tuple[str, ...]


def split_of(table: Table) -> Split:
    """The split of a table whose parts are proven to add up."""
    assert isinstance(table.incremental, Additive)
    return _split(table.query, table.inputs, table.incremental.parts)


@cache
def _split(query: str, inputs: tuple[str, ...], names: tuple[str, ...]) -> Split:
    tree = parse(query, inputs)
    parts = {name: _part(tree, name, inputs, names[:place]) for place, name in enumerate(names)}
    rest = tree.copy()
    _remove_ctes(rest, names)
    _drop_unread(rest)
    read = _tables_of(rest)
    left, sums = tuple(n for n in inputs if n in read), tuple(n for n in names if n in read)
    return Split(parts, _bind_frames(rest, (*left, *sums)), left, sums)


def _part(tree: exp.Query, name: str, inputs: tuple[str, ...], before: tuple[str, ...]) -> Part:
    query = sqlglot.select("*").from_(name)
    query.set("with_", tree.args["with_"].copy())
    _remove_ctes(query, before)
    _drop_unread(query)
    body = next(cte.this for cte in query.ctes if cte.alias == name)
    keys, sums, values = [], [], {}
    for item in body.selects:
        column = item.alias_or_name
        if not aggregates(item):
            keys.append(column)
            continue
        sums.append(column)
        if count := _values_of(item.unalias()):
            values[column] = f"_values_{column}"
            body.select(exp.alias_(count, values[column]), copy=False)
    body.select(f"COUNT(*) AS {ROWS}", copy=False)
    (read,) = (n for n in (*inputs, *before) if n in _tables_of(query))
    query_by_commit = query.copy()
    for cte in query_by_commit.ctes:
        is_grouped = cte.this.args.get("group") or any(aggregates(item) for item in cte.this.selects)
        cte.this.select(SIDE, copy=False)
        if is_grouped:
            cte.this.group_by(SIDE, copy=False)
    by_commit = _bind_frames(query_by_commit, (read,))
    return Part(read, _bind_frames(query, (read,)), by_commit, tuple(keys), tuple(sums), values)


def _values_of(aggregate: exp.Expr) -> exp.Expr | None:
    """How many values a SUM has, of the rows that it is of: without any it is null. None for a COUNT."""
    counted = aggregate.copy()
    total = counted.this if isinstance(counted, exp.Filter) else counted
    if not isinstance(total, exp.Sum):
        return None
    count = exp.Count(this=total.this.copy(), big_int=True)
    if total is counted:
        return count
    total.replace(count)
    return counted


def _tables_of(tree: exp.Query) -> set[str]:
    return {table.name for table in tree.find_all(exp.Table)}


def _remove_ctes(tree: exp.Query, names: tuple[str, ...]) -> None:
    """Remove these common table expressions: what reads them reads a table of that name."""
    for cte in [cte for cte in tree.ctes if cte.alias in names]:
        cte.pop()


def _drop_unread(tree: exp.Query) -> None:
    """Remove the common table expressions that nothing reads."""
    while unread := [cte for cte in tree.ctes if cte.alias not in _tables_of(tree)]:
        for cte in unread:
            cte.pop()
    if not tree.ctes:
        tree.set("with_", None)


def _bind_frames(tree: exp.Query, names: tuple[str, ...]) -> str:
    """The text of ``tree``, with each of ``names`` in the braces that Spark binds a frame to."""
    for table in tree.find_all(exp.Table):
        if table.name in names:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
            table.set("this", exp.Identifier(this=f"{{{table.name}}}", quoted=False))
    return tree.sql("spark", comments=False)
