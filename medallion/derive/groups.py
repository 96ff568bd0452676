"""A query whose last SELECT groups rows, with these groups as a common table expression, which can then be kept.

Only text is moved, at positions of its tokens. Whether it still is the same query is for Spark to say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import tokenize
from sqlglot.tokenizer_core import Token

from medallion.model.additive_split import closing_of, common_table_expressions, word_of
from medallion.model.plan import Unprovable

GROUPS = "_groups"  # the common table expression
_SUMS = {"SUM", "COUNT"}
_CLAUSES = ("FROM", "GROUP BY", "HAVING", "ORDER BY", "LIMIT")
_NOT_MOVED = {"HAVING", "WINDOW", "QUALIFY", "UNION", "EXCEPT", "INTERSECT", "MINUS", "DISTINCT", "OFFSET"} | {
    *("ROLLUP", "CUBE", "GROUPING", "GROUPING SETS", "CLUSTER BY", "DISTRIBUTE BY", "SORT BY", "PIVOT", "UNPIVOT"),
}

Tokens = Sequence[Token]


def with_groups(query: str) -> str | None:
    """The query with the groups of its last SELECT apart; None where it has none, or is of another form."""
    try:
        tokens = tokenize(query, dialect="spark")
        ctes, after = common_table_expressions(tokens)
        select = _Select.of(query, tokens[after:])
    except (Unprovable, IndexError):
        return None
    if select is None:
        return None
    before = query[: tokens[after - 1].end + 1] + ", " if ctes else "WITH "
    return f"{before}{GROUPS} AS ({select.groups_text()}) {select.rest_text()}"


@dataclass
class _Select:
    """A SELECT by its clauses. groups: what it groups by. sums: by the words of each sum, its text."""

    query: str
    items: list[tuple[Tokens, str]]
    source: Tokens
    groups: list[Tokens]
    tail: Tokens
    sums: dict[tuple[str, ...], str]

    @classmethod
    def of(cls, query: str, tokens: Tokens) -> "_Select | None":
        """Read one; None for one without groups, or with a clause that is not moved."""
        outer = [place for place, depth in enumerate(_depths(tokens)) if depth == 0]
        words = {place: word_of(tokens[place]) for place in outer}
        if not tokens or words.get(0) != "SELECT" or _NOT_MOVED.intersection(words.values()):
            return None
        places = {clause: next((p for p in outer if words[p] == clause), None) for clause in _CLAUSES}
        start, group = places["FROM"], places["GROUP BY"]
        if start is None or group is None:
            return None
        end = next((p for p in (places["ORDER BY"], places["LIMIT"]) if p is not None), len(tokens))
        items = [_named(part) for part in _split(tokens[1:start])]
        by_alias = {name.lower(): expression for expression, name in items}
        groups = []
        for part in _split(tokens[group + 1 : end]):
            is_alias = len(part) == 1 and part[0].text.lower() in by_alias
            groups.append(by_alias[part[0].text.lower()] if is_alias else part)
        if any(not part or part[0].text.isdigit() for part in groups):
            return None
        return cls(query, items, tokens[start:group], groups, tokens[end:], {})

    def groups_text(self) -> str:
        """The groups and their sums, as a query of its own."""
        items = [self._moved(expression) for expression, _ in self.items]
        self._tail = self._moved(self.tail)
        self._items = [f"{text} AS {name}" for text, (_, name) in zip(items, self.items, strict=True)]
        keys = [f"{self._text(part)} AS _key{n}" for n, part in enumerate(self.groups)]
        sums = [f"{text} AS _sum{n}" for n, text in enumerate(self.sums.values())]
        by = ", ".join(self._text(part) for part in self.groups)
        return f"SELECT {', '.join([*keys, *sums])} {self._text(self.source)} GROUP BY {by}"

    def rest_text(self) -> str:
        """What is computed from the groups."""
        return f"SELECT {', '.join(self._items)} FROM {GROUPS} {self._tail}".rstrip()  # noqa: S608 (of its own text)

    def _moved(self, tokens: Tokens) -> str:
        """The text of an expression, over the columns of the groups."""
        pieces, place = list[str](), 0
        while place < len(tokens):
            length, text = self._group_at(tokens, place) or self._sum_at(tokens, place) or (1, "")
            pieces.append(text or self._text(tokens[place : place + 1]))
            place += length
        return " ".join(pieces)

    def _group_at(self, tokens: Tokens, place: int) -> tuple[int, str] | None:
        longest: tuple[int, str] | None = None
        for number, part in enumerate(self.groups):
            if _words(tokens[place : place + len(part)]) == _words(part) and (longest or (0, ""))[0] < len(part):
                longest = len(part), f"_key{number}"
        is_named = place > 0 and tokens[place - 1].text == "."
        return None if is_named else longest

    def _sum_at(self, tokens: Tokens, place: int) -> tuple[int, str] | None:
        if word_of(tokens[place]) not in _SUMS or place + 1 >= len(tokens) or word_of(tokens[place + 1]) != "(":
            return None
        end = closing_of(tokens, place + 1)
        if end + 2 < len(tokens) and word_of(tokens[end + 1]) == "FILTER":
            end = closing_of(tokens, end + 2)
        if end + 1 < len(tokens) and word_of(tokens[end + 1]) == "OVER":
            return None
        found = tokens[place : end + 1]
        self.sums.setdefault(_words(found), self._text(found))
        return len(found), f"_sum{[*self.sums].index(_words(found))}"

    def _text(self, tokens: Tokens) -> str:
        return self.query[tokens[0].start : tokens[-1].end + 1] if tokens else ""


def _named(part: Tokens) -> tuple[Tokens, str]:
    """An item of a SELECT and the name that it gives. Raises Unprovable for one without a name."""
    if len(part) > 2 and word_of(part[-2]) == "AS":
        return part[:-2], part[-1].text
    if (len(part) == 1 or (len(part) == 3 and part[1].text == ".")) and part[-1].text != "*":
        return part, part[-1].text
    raise Unprovable("an item without a name")


def _split(tokens: Tokens) -> Iterator[Tokens]:
    """Yield what stands between commas."""
    commas = [place for place, depth in enumerate(_depths(tokens)) if depth == 0 and tokens[place].text == ","]
    for left, right in pairwise([-1, *commas, len(tokens)]):
        yield tokens[left + 1 : right]


def _depths(tokens: Tokens) -> list[int]:
    depths, depth = [], 0
    for token in tokens:
        depth += word_of(token) in {"(", "[", "{"}
        depths.append(depth)
        depth -= word_of(token) in {")", "]", "}"}
    return depths


def _words(tokens: Tokens) -> tuple[str, ...]:
    """Equal for tokens that say the same: names in any case, texts as they are."""
    return tuple(word_of(token) or repr(token.text) for token in tokens)
