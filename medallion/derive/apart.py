"""Split a query into pieces, relations whose state can be kept, and the rest, which is computed from the pieces.

A piece is either groups or rows. Groups are set apart from what is computed from them: ratios, HAVING, ORDER BY and
LIMIT, scalar subqueries over other groups. Rows are set apart from a condition that compares them with such a subquery.
This module only proposes: Spark checks that the pieces and the rest give the same rows as the query, and the proofs
check that the state adds up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from medallion.derive.piece_columns import Columns, Unmoved, group_expressions, grouping_of, marked, unmarked
from medallion.derive.select_clauses import conjuncts, gives_groups, sources
from medallion.model.kept_text import PREFIX, inputs_of, relation_text
from medallion.model.methods import Kept, KeptItem, KeptPart
from medallion.model.plan import Unprovable

Accept = Callable[[KeptPart], KeptPart]  # completes a part if it can be proven, else raises Unprovable


class _AsWritten(Spark):
    """Spark's SQL with a comma in FROM left as a comma: Spark's optimizer treats CROSS JOIN differently."""

    class Parser(SparkParser):
        """The parser of this dialect."""

        JOINS_HAVE_EQUAL_PRECEDENCE = False


_OF_SOURCE = ("from_", "joins", "laterals", "where")  # the clauses that a piece takes over as they are
# A query with one of these clauses is no piece.
_NOT_MOVED = ("qualify", "windows", "cluster", "distribute", "sort", "pivots", "kind", "into", "match", "sample")
_KEPT = f"__in_{PREFIX}"  # how the name of a kept piece begins while its query is parsed


def kept_of(query: str, accept: Accept) -> tuple[Kept | None, list[str]]:
    """Return the pieces of a query whose state can be kept, with the rest; and why the state of others cannot be.

    accept: decides whether the state of a piece can be kept. Without any piece, the first value is None.
    """
    try:
        tree = sqlglot.parse_one(marked(query), dialect=_AsWritten)
    except (sqlglot.errors.SqlglotError, ValueError):
        return None, ["its text is not understood"]
    if not isinstance(tree, exp.Query) or query_with(tree).get("recursive"):
        return None, ["it is no SELECT"]
    pieces = _Pieces(tree, accept)
    rest = pieces.keep(pieces.last, is_last=True)
    if not pieces.parts:
        return None, [*dict.fromkeys(pieces.reasons)]
    return Kept(tuple(pieces.parts), pieces.text_with_ctes(rest)), [*dict.fromkeys(pieces.reasons)]


def query_with(tree: exp.Query) -> Mapping[str, object]:
    """Return the arguments of a query's WITH clause; empty if it has none."""
    with_clause = tree.args.get("with_")
    return with_clause.args if with_clause is not None else {}


@dataclass
class _Pieces:
    """The pieces of one query. parts: those whose state is kept. reasons: why that of others is not.

    _used: how often a kept piece has taken the place of its text. _changed: by name, common table expressions that read
    kept pieces now.
    """

    tree: exp.Query
    accept: Accept
    parts: list[KeptPart] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    _used: int = 0
    _changed: dict[str, exp.Query] = field(default_factory=dict)

    @cached_property
    def ctes(self) -> dict[str, exp.Query]:
        """The common table expressions of the query, by name."""
        return {cte.alias: cte.this for cte in self.tree.ctes}

    def _cte_of(self, source: exp.Expr) -> str:
        """Return the common table expression that a table in FROM names, in any letter case; empty if it names none."""
        if not isinstance(source, exp.Table):
            return ""
        return next((name for name in self.ctes if name.lower() == source.name.lower()), "")

    @cached_property
    def last(self) -> exp.Query:
        """The query without its WITH clause."""
        last = self.tree.copy()
        last.set("with_", None)
        return last

    # --- what the rest of the query is

    def keep(self, query: exp.Query, *, is_last: bool = False) -> exp.Query:
        """Return ``query`` with kept pieces replaced by their names; unchanged if nothing is kept."""
        if isinstance(query, exp.SetOperation | exp.Subquery):
            over: exp.Query = query.copy()
            for side in ("this", "expression") if isinstance(query, exp.SetOperation) else ("this",):
                over.set(side, self.keep(query.args[side]))
            return over
        if not isinstance(query, exp.Select) or query.args.get("with_"):
            return query
        is_grouped = gives_groups(query)
        ways = [self._groups_apart] if is_grouped else [self._rows_apart] if is_last else []
        if not is_grouped and self._reads_expressions(query):
            ways = [self._over_kept, *ways]
        else:
            ways += [self._lifted, self._over_kept]
        for way in ways:
            count, used, changed = len(self.parts), self._used, {**self._changed}
            try:
                new = way(query)
            except Unmoved as reason:
                del self.parts[count:]
                self._used, self._changed = used, changed
                if str(reason):
                    self.reasons.append(str(reason))
                continue
            if self._used > used:
                return new
        return query

    def _groups_apart(self, query: exp.Select) -> exp.Query:
        """Make a piece of the groups, and return the query over it, which computes everything else."""
        groups = group_expressions(query)
        new, columns = query.copy(), Columns(groups, query)
        names = {item.alias_or_name.lower() for item in query.expressions}
        if is_distinct := bool(query.args.get("distinct") and not query.args.get("group")):
            new.set("distinct", None)
        new.set("expressions", [columns.with_former_name(item) for item in query.expressions])
        if having := query.args.get("having"):
            new.set("having", None)
            condition = columns.moved(self._subqueries_kept(having.this))
            new.set("where", exp.Where(this=condition))
        if order := query.args.get("order"):
            new.set("order", columns.moved(order, names))
        is_distinct = is_distinct and all(item.kind == "key" for item in columns.items())
        name = self._piece(query, columns.items(), is_grouped=True, is_distinct=is_distinct)
        for clause in ("joins", "laterals", "group"):
            new.set(clause, None)
        if not having:
            new.set("where", None)
        new.set("from_", exp.From(this=_kept_table(name)))
        return self._with_subqueries_kept(new)

    def _rows_apart(self, query: exp.Select) -> exp.Query:
        """Make a piece of all rows, and return the query over it, with ORDER BY and LIMIT."""
        return self._rows_below(query, None)

    def _lifted(self, query: exp.Select) -> exp.Query:
        """Make a piece of the rows as they are before conditions compare them with another piece.

        Returns the query over it, which has these conditions. Raises Unmoved if there are none.
        """
        where, others, lifted = query.args.get("where"), list[exp.Expr](), list[exp.Expr]()
        for condition in conjuncts(where.this if where else None):
            used = self._used
            changed = self._subqueries_kept(condition)
            (lifted if self._used > used else others).append(changed)
        if not lifted:
            raise Unmoved("")
        below = query.copy()
        below.set("where", exp.Where(this=exp.and_(*others, copy=False)) if others else None)
        return self._rows_below(below, exp.and_(*lifted, copy=False))

    def _rows_below(self, query: exp.Select, condition: exp.Expr | None) -> exp.Query:
        """Make a piece of the rows that ``query`` selects from, with the columns that it needs.

        Returns the query over it, which applies ``condition``, if there is one, and everything after WHERE.
        """
        new, columns = query.copy(), Columns([], query, takes_columns=True)
        names = {item.alias_or_name.lower() for item in query.expressions}
        if condition is None:  # if nothing else reads the rows, the computed values themselves
            rowwise = [item.unalias() for item in query.expressions if not item.find(exp.Window)]
            columns = Columns(rowwise, query, takes_columns=True)
        new.set("expressions", [columns.with_former_name(item) for item in query.expressions])
        for clause in ("group", "having"):
            if clause_tree := query.args.get(clause):
                new.set(clause, columns.moved(clause_tree))
        if order := query.args.get("order"):
            new.set("order", columns.moved(order, names))
        new.set("where", exp.Where(this=columns.moved(condition)) if condition is not None else None)
        name = self._piece(query, columns.items(), is_grouped=False)
        for clause in ("joins", "laterals"):
            new.set(clause, None)
        new.set("from_", exp.From(this=_kept_table(name)))
        return new

    def _over_kept(self, query: exp.Select) -> exp.Query:
        """Return the query over the kept pieces of the common table expressions and subqueries that it reads."""
        new = self._with_subqueries_kept(query.copy())
        for table in [*new.find_all(exp.Table)]:
            if (name := self._cte_of(table)) and name not in self._changed:
                used = self._used
                changed = self.keep(self.ctes[name])
                if self._used > used:
                    self._changed[name] = changed
        for derived in [*new.find_all(exp.Subquery)]:
            if isinstance(derived.parent, exp.From | exp.Join) and isinstance(derived.this, exp.Query):
                derived.set("this", self.keep(derived.this))
        return new

    def _with_subqueries_kept(self, query: exp.Select) -> exp.Select:
        for clause in ("where", "having"):
            if clause_tree := query.args.get(clause):
                clause_tree.set("this", self._subqueries_kept(clause_tree.this))
        query.set("expressions", [self._subqueries_kept(item) for item in query.expressions])
        return query

    def _subqueries_kept(self, tree: exp.Expr) -> exp.Expr:
        """Return an expression whose subqueries read their kept pieces."""
        holder = exp.Paren(this=tree.copy())
        for subquery in [*holder.find_all(exp.Subquery)]:
            if isinstance(subquery.this, exp.Query) and not _is_kept(subquery):
                subquery.set("this", self.keep(subquery.this))
        inner = holder.this
        assert isinstance(inner, exp.Expr)
        return inner

    # --- pieces

    def _piece(
        self, query: exp.Select, items: Sequence[KeptItem], *, is_grouped: bool, is_distinct: bool = False
    ) -> str:
        """Return the name of a piece with these columns, which is added unless it is known.

        Raises Unmoved if its state cannot be kept.
        """
        if any(query.args.get(clause) for clause in _NOT_MOVED) or not query.args.get("from_") or not items:
            raise Unmoved("")
        copied = query.copy().args
        source = exp.Select(**{clause: copied.get(clause) for clause in _OF_SOURCE})
        text = unmarked(source.sql(dialect="spark")).removeprefix("SELECT").lstrip("* \n")
        ctes = self._ctes_read_by(query, changed=False)
        grouping = grouping_of(query) if is_grouped else ""
        part = KeptPart(f"{PREFIX}{len(self.parts)}", ctes, text, tuple(items), is_grouped, is_distinct, grouping)
        read = inputs_of(relation_text(part))
        if not read or any(name.startswith(PREFIX) for name in read):
            raise Unmoved("")
        known = next((known for known in self.parts if _as_proposed(known) == replace(part, name="")), None)
        if known is None:
            try:
                known = self.accept(part)
            except Unprovable as reason:
                raise Unmoved(str(reason)) from None
            self.parts.append(known)
        self._used += 1
        return known.name

    def text_with_ctes(self, query: exp.Query) -> str:
        """Return a query as SQL, with the common table expressions that it reads, computed from their kept pieces."""
        ctes = self._ctes_read_by(query, changed=True)
        return ctes + unmarked(query.sql(dialect="spark"))

    def _ctes_read_by(self, *trees: exp.Expr, changed: bool) -> str:
        """Return the WITH clause of what ``trees`` read; empty if they read no common table expression.

        changed: whether its text reads kept pieces.
        """
        bodies = {**self.ctes, **self._changed} if changed else self.ctes
        needed, waiting = set[str](), [*trees]
        while waiting:
            for table in waiting.pop().find_all(exp.Table):
                if (name := self._cte_of(table)) and name not in needed:
                    needed.add(name)
                    waiting.append(bodies[name])
        clauses = [f"{name} AS ({unmarked(bodies[name].sql(dialect='spark'))})" for name in bodies if name in needed]
        return f"WITH {', '.join(clauses)} " if clauses else ""

    def _reads_expressions(self, query: exp.Select) -> bool:
        """Whether FROM of a query reads a common table expression or a subquery."""
        return any(self._cte_of(source) or isinstance(source, exp.Subquery) for source in sources(query))


def _as_proposed(part: KeptPart) -> KeptPart:
    """Return an accepted part as it was proposed, without its name."""
    return replace(part, name="", by=None, whole=(), items=tuple(replace(item, type="") for item in part.items))


def _is_kept(tree: exp.Expr) -> bool:
    """Whether an expression reads a kept piece."""
    return any(table.name.startswith(_KEPT) for table in tree.find_all(exp.Table))


def _kept_table(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(f"__in_{name}__"))
