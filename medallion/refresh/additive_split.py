"""Splitting a query at the common table expressions whose sums are kept: two halves of one definition."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import sqlglot
from sqlglot import exp

from medallion.errors import MedallionError
from medallion.model.table import Additive, Table
from medallion.spark.delta_reads import SIDE

ROWS = "_rows"  # how many input rows stand behind a group: it goes when none is left


@dataclass(frozen=True)
class Part:
    """A kept common table expression over one input, or over another part, whose groups then are its rows.

    query: gives keys and sums of any rows of ``input``, with ROWS and, by column in ``values``, how many values a
    nullable sum has. by_side: gives the same of changed rows, those of each SIDE apart: what one commit takes away or
    brings is whole, what several do together is not. Both in words that Spark binds, as a table's own query.
    """

    input: str
    query: str
    by_side: str
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
    """The split of a table that is declared Additive. Raises MedallionError when a part of it does not add up."""
    assert isinstance(table.incremental, Additive)
    return _split(table.name, table.query, table.inputs, table.incremental.parts)


@cache
def _split(name: str, query: str, inputs: tuple[str, ...], parts: tuple[str, ...]) -> Split:
    tree = _parsed(query, inputs)
    if missing := set(parts) - {cte.alias for cte in tree.ctes}:
        raise MedallionError(f"{name} keeps {missing.pop()}, which is no common table expression of its query")
    kept = {part: _part(name, tree, part, inputs, parts[:place]) for place, part in enumerate(parts)}
    rest = tree.copy()
    _cut(rest, parts)
    _forget_unread(rest)
    left, sums = (tuple(one for one in these if one in _named(rest)) for these in (inputs, parts))
    return Split(kept, _bound(rest, (*left, *sums)), left, sums)


def _part(name: str, tree: exp.Query, part: str, inputs: tuple[str, ...], before: tuple[str, ...]) -> Part:
    query = sqlglot.select("*").from_(part)
    query.set("with_", tree.args["with_"].copy())
    _cut(query, before)
    _forget_unread(query)
    body = next(cte.this for cte in query.ctes if cte.alias == part)
    keys, sums, values = [], [], {}
    for column in body.selects:
        if column.find(exp.AggFunc) is None:
            keys.append(column.alias_or_name)
            continue
        aggregate = column.unalias()
        aggregate = aggregate.this if isinstance(aggregate, exp.Filter) else aggregate
        if not isinstance(aggregate, exp.Sum | exp.Count):
            raise MedallionError(f"{name} keeps {part}, whose {column.alias_or_name} is neither a SUM nor a COUNT")
        sums.append(column.alias_or_name)
        if isinstance(aggregate, exp.Sum):
            values[column.alias_or_name] = f"_values_{column.alias_or_name}"
            body.select(f"COUNT({aggregate.this.sql('spark')}) AS {values[column.alias_or_name]}", copy=False)
    body.select(f"COUNT(*) AS {ROWS}", copy=False)
    read = [one for one in (*inputs, *before) if one in _named(query)]
    if len(read) != 1:
        raise MedallionError(f"{name} keeps {part}, which reads {', '.join(read) or 'no table'}: it must read one")
    by_side = query.copy()
    for cte in by_side.ctes:
        if not isinstance(cte.this, exp.Select):
            raise MedallionError(f"{name} keeps {part}, which reads {cte.alias}: only a plain SELECT adds up")
        cte.this.select(SIDE, copy=False)
        if cte.this.args.get("group") or any(column.find(exp.AggFunc) for column in cte.this.selects):
            cte.this.group_by(SIDE, copy=False)
    return Part(read[0], _bound(query, (read[0],)), _bound(by_side, (read[0],)), tuple(keys), tuple(sums), values)


def _parsed(query: str, inputs: tuple[str, ...]) -> exp.Query:
    tree = sqlglot.parse_one(query.format_map({name: name for name in inputs}), dialect="spark")
    assert isinstance(tree, exp.Query)
    return tree


def _named(tree: exp.Query) -> set[str]:
    return {table.name for table in tree.find_all(exp.Table)}


def _cut(tree: exp.Query, names: tuple[str, ...]) -> None:
    """Remove these common table expressions: what reads them reads a table of that name."""
    for cte in [cte for cte in tree.ctes if cte.alias in names]:
        cte.pop()


def _forget_unread(tree: exp.Query) -> None:
    """Remove the common table expressions that nothing reads."""
    while unread := [cte for cte in tree.ctes if cte.alias not in _named(tree)]:
        for cte in unread:
            cte.pop()
    if not tree.ctes:
        tree.set("with_", None)


def _bound(tree: exp.Query, names: tuple[str, ...]) -> str:
    """The text of ``tree``, with each of ``names`` in the braces that Spark binds a frame to."""
    for table in tree.find_all(exp.Table):
        if table.name in names:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
            table.set("this", exp.Identifier(this=f"{{{table.name}}}", quoted=False))
    return tree.sql("spark", comments=False)
