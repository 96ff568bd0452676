"""Split a query at the common table expressions whose aggregate state is kept.

Pieces are cut from the author's own text. Additional columns, such as counters and the commit of a row, are inserted at
text positions; the SQL is not generated. The proof compares Spark's plan of the pieces with its plan of the query.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from string import Formatter

from sqlglot import tokenize
from sqlglot.tokenizer_core import Token, TokenType

from medallion.model.methods import Additive
from medallion.model.plan import Unprovable
from medallion.model.refresh_method import SIDE
from medallion.model.table import Table

ROWS = "_rows"  # number of input rows of a group; the group is removed when it reaches 0
_OPEN, _CLOSE = {"(", "[", "{"}, {")", "]", "}"}
_BEFORE_TABLE = {"FROM", "TABLE", "LATERAL", ",", "("}


@dataclass(frozen=True)
class Part:
    """A common table expression whose aggregate state is kept, over one input or over the groups of another part.

    query: computes keys and sums of any rows of ``input``, with ROWS and, for each sum, the counter of its non-null
    values, which ``values`` names by column. query_by_commit: the same per commit and side, because only the rows of
    one commit are complete. Both name tables in braces, as a table's own query does. columns: keys and sums in the
    order of the expression.
    """

    input: str
    query: str
    query_by_commit: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    sums: tuple[str, ...]
    values: Mapping[str, str]

    @property
    def counters(self) -> tuple[str, ...]:
        """All columns of the state that add up."""
        return (*self.sums, *self.values.values(), ROWS)


@dataclass(frozen=True)
class Split:
    """A query split in two: the parts whose state is kept, and the rest.

    rest: the remaining query. inputs, sums: the inputs and the parts that the rest reads.
    """

    parts: Mapping[str, Part]
    rest: str
    inputs: tuple[str, ...]
    sums: tuple[str, ...]


@dataclass(frozen=True)
class _Expression:
    """A common table expression in a text. start, end: the range of the text inside its parentheses."""

    name: str
    start: int
    end: int
    tokens: tuple[Token, ...]

    def reads(self, name: str) -> bool:
        """Return whether ``name`` occurs where a table may be named; columns may have the same name as a table."""
        words = ["", *map(_word, self.tokens)]
        return any(
            token.text.lower() == name.lower() and (before in _BEFORE_TABLE or before.endswith("JOIN"))
            for before, token in zip(words, self.tokens, strict=False)
        )


def split_of(table: Table) -> Split:
    """Return the split of an additive table that ``require_names`` accepts. Raises Unprovable if it cannot be cut."""
    assert isinstance(table.method, Additive)
    return _split(table.query, table.inputs, table.method.parts)


def require_names(table: Table) -> None:
    """Raise Unprovable if a common table expression has the name of an input, or a part is not among them.

    Spark refuses two of one WITH that have the same name.
    """
    assert isinstance(table.method, Additive)
    ctes, _ = _common_table_expressions(tokenize(table.query, dialect="spark"))
    for cte in ctes:
        if cte.name in table.inputs:
            raise Unprovable(
                f"`{cte.name}` is a common table expression and an input: give the expression another name"
            )
    known = {cte.name.lower() for cte in ctes}
    for name in table.method.parts:
        if name.lower() not in known:
            raise Unprovable(f"`{name}` is no common table expression of its query")


@cache
def _split(query: str, inputs: tuple[str, ...], names: tuple[str, ...]) -> Split:
    tokens = tokenize(query, dialect="spark")
    ctes, after = _common_table_expressions(tokens)
    parts = {
        name: _cut_part(query, ctes, name, [*inputs, *names[:place]], names[:place]) for place, name in enumerate(names)
    }
    main = _Expression("", tokens[after].start, len(query), tuple(tokens[after:]))
    rest = _text(query, _needed(ctes, main, names), {name: _all_of(f"{{{name}}}") for name in names})
    rest = f"{rest}{query[main.start :]}"
    read = [name for name in dict.fromkeys(_placeholders(rest)) if name]
    left = tuple(name for name in inputs if name in read)
    return Split(parts, rest, left, tuple(name for name in names if name in read))


def _common_table_expressions(tokens: Sequence[Token]) -> tuple[list[_Expression], int]:
    """Return the common table expressions of the outer query, and the position of the token after them."""
    if not tokens or _word(tokens[0]) != "WITH":
        return [], 0
    expressions: list[_Expression] = []
    place = 1
    while True:
        name = tokens[place].text
        place += 1
        if _word(tokens[place]) == "(":
            raise Unprovable(f"`{name}` renames its columns from outside: use AS inside")
        if _word(tokens[place]) != "AS" or _word(tokens[place + 1]) != "(":
            raise Unprovable(f"its common table expression {name} cannot be cut from its text")
        end = _closing(tokens, place + 1)
        inner = tuple(tokens[place + 2 : end])
        expressions.append(_Expression(name, tokens[place + 1].end + 1, tokens[end].start, inner))
        place = end + 1
        if place >= len(tokens) or _word(tokens[place]) != ",":
            return expressions, place
        place += 1


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """Return the position of the parenthesis that closes the one at ``opening``."""
    depth = 0
    for place in range(opening, len(tokens)):
        depth += (_word(tokens[place]) in _OPEN) - (_word(tokens[place]) in _CLOSE)
        if depth == 0:
            return place
    raise Unprovable("its parentheses do not close")


def _needed(ctes: Sequence[_Expression], reader: _Expression, stops: Sequence[str]) -> list[_Expression]:
    """Return the earlier expressions that ``reader`` needs, in order; the inputs of ``stops`` are not followed."""
    needed: list[_Expression] = []
    waiting = [reader]
    while waiting:
        current = waiting.pop()
        for cte in ctes:
            if cte is current:
                break
            if cte not in needed and current.reads(cte.name):
                needed.append(cte)
                if cte.name not in stops:
                    waiting.append(cte)
    return sorted(needed, key=lambda cte: cte.start)


def _text(query: str, ctes: Iterable[_Expression], bodies: Mapping[str, str]) -> str:
    """Return the WITH clause of ``ctes``, with their text replaced by ``bodies`` where these have their name."""
    clauses = [f"{cte.name} AS ({bodies.get(cte.name, query[cte.start : cte.end])})" for cte in ctes]
    return f"WITH {', '.join(clauses)} " if clauses else ""


def _all_of(name: str) -> str:
    return f"SELECT * FROM {name}"  # noqa: S608 (a name of the query)


def _placeholders(text: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(text) if name]


def _cut_part(query: str, ctes: Sequence[_Expression], name: str, tables: Sequence[str], before: Sequence[str]) -> Part:
    cte = next(cte for cte in ctes if cte.name.lower() == name.lower())
    body = _Select(query, cte)
    columns, sums, values, counters = [], [], {}, []
    for item in body.items:
        column = item.name
        if not column or column in columns or (item.is_star and not item.is_aggregate):
            raise Unprovable(
                f"`{name}` does not add up: "
                + ("its columns must be listed, not *" if item.is_star else "every column needs a name of its own")
            )
        columns.append(column)
        if item.is_aggregate:
            sums.append(column)
        if item.function == "SUM":
            values[column] = f"_values_{column}"
            counters.append(f"COUNT{item.arguments} AS {values[column]}")
    if taken := {ROWS, SIDE, *values.values()}.intersection(columns):
        raise Unprovable(f"`{name}` has a column {min(taken)}, which the refresh adds: give it another name")
    counters.append(f"COUNT(*) AS {ROWS}")
    needed = _needed(ctes, cte, before)
    stops = {stop: _all_of(f"{{{stop}}}") for stop in before}
    plain = _text(query, [*needed, cte], stops | {cte.name: body.with_columns(counters)})
    by_commit = dict(stops)
    for inner in needed:
        if inner.name not in before:
            by_commit[inner.name] = _Select(query, inner).with_columns([], SIDE)
    by_commit[cte.name] = body.with_columns(counters, SIDE)
    commits = _text(query, [*needed, cte], by_commit)
    read = [table for table in dict.fromkeys(_placeholders(plain)) if table in tables]
    if len(read) != 1:
        raise Unprovable(f"`{name}` does not add up: it must read one table")
    select = _all_of(cte.name)
    keys = tuple(column for column in columns if column not in sums)
    return Part(read[0], plain + select, commits + select, tuple(columns), keys, tuple(sums), values)


@dataclass(frozen=True)
class _Item:
    """An item of a SELECT list. arguments: those of its function, including parentheses and FILTER."""

    name: str
    function: str
    arguments: str
    is_star: bool

    @property
    def is_aggregate(self) -> bool:
        """Whether its text looks like a SUM or a COUNT."""
        return self.function in {"SUM", "COUNT"}


class _Select:
    """The text of a plain SELECT: its items, and the positions where columns and groups can be added."""

    def __init__(self, query: str, cte: _Expression) -> None:
        self._query, self._cte, tokens = query, cte, cte.tokens
        where = f"`{cte.name}` does not add up"
        if not tokens or _word(tokens[0]) != "SELECT":
            raise Unprovable(f"{where}: it has a UNION or the like: only a plain SELECT adds up")
        depths = _depths(tokens)
        outer = [place for place, depth in enumerate(depths) if depth == 0]
        words = {place: _word(tokens[place]) for place in outer}
        starts = [p for p in outer if words[p] == "FROM" and words.get(p - 1) != "DISTINCT"]
        if not starts:
            raise Unprovable(f"{where}: it reads no table")
        if starts[0] + 1 < len(tokens) and _word(tokens[starts[0] + 1]) == "(":
            raise Unprovable(f"{where}: it reads a subquery: make it a common table expression")
        first = 2 if words.get(1) in {"DISTINCT", "ALL"} else 1
        commas = [p for p in outer if first <= p < starts[0] and words[p] == ","]
        bounds = [first - 1, *commas, starts[0]]
        self.items = [_item(query, tokens[a + 1 : b]) for a, b in pairwise(bounds)]
        self._list_end = tokens[starts[0] - 1].end + 1
        self._groups = [p for p in outer if words[p].replace(" ", "") in {"GROUPBY", "GROUP"}]
        if self._groups and any(words.get(self._groups[0] + step) == "ALL" for step in (1, 2)):
            raise Unprovable(f"{where}: GROUP BY must list its columns")

    def with_columns(self, columns: Sequence[str], group: str | None = None) -> str:
        """Return its text with additional ``columns``, and with ``group`` as an additional column and group."""
        added = list(columns)
        if group and not any(item.is_star and not item.is_aggregate for item in self.items):
            added.append(group)
        extra_columns = "".join(f", {column}" for column in added)
        start, end = self._cte.start, self._cte.tokens[-1].end + 1
        grouped = f", {group}" if group and self._groups else ""
        return f"{self._query[start : self._list_end]}{extra_columns}{self._query[self._list_end : end]}{grouped}"


def _depths(tokens: Sequence[Token]) -> list[int]:
    """Return the nesting depth of each token; parentheses have the depth of their contents."""
    depths, depth = [], 0
    for token in tokens:
        depth += _word(token) in _OPEN
        depths.append(depth)
        depth -= _word(token) in _CLOSE
    return depths


def _word(token: Token) -> str:
    """Return the upper-case text of a token; empty for string literals and quoted names."""
    return "" if token.token_type in {TokenType.STRING, TokenType.IDENTIFIER} else token.text.upper()


def _item(query: str, tokens: Sequence[Token]) -> _Item:
    words = [_word(token) for token in tokens]
    is_star = "*" in words[:3] and (len(words) == 1 or words[1:3] == [".", "*"] or words[0] == "*")
    name = "" if not tokens or words[-1] in {*_CLOSE, "END"} else tokens[-1].text
    if len(words) < 2 or words[1] != "(":
        return _Item(name, "", "", is_star)
    end = _closing(tokens, 1)
    if end + 2 < len(tokens) and words[end + 1] == "FILTER" and words[end + 2] == "(":
        end = _closing(tokens, end + 2)
    after = [word for word in words[end + 1 :] if word != "AS"]
    function = words[0] if len(after) <= 1 else ""
    return _Item(name, function, query[tokens[1].start : tokens[end].end + 1], is_star)
