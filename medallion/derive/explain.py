"""Explain how a table is refreshed, in words and as JSON: what each change touches, why other methods are refused."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from medallion.counts import counted
from medallion.derive.newest import NO_CONDITION
from medallion.derive.sql_lines import sql_lines
from medallion.model.additive_split import Split, split_of
from medallion.model.kept_text import counted_values, inputs_of, relation_text
from medallion.model.methods import Additive, ByKey, Full, Kept, KeptPart, Method, Recent, Via
from medallion.model.needs import Needs
from medallion.model.refresh_lock import describe_method
from medallion.model.table import Node, Table

_NOT_NULL = re.compile(r'\(("\w+") IS NOT NULL\)')
_COMPARISON = re.compile(r"""\(("\w+") (?:[<>=]+|IN|LIKE) .*\)|\w+_with\(("\w+"), .*\)""")
_UNITS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}  # seconds


@dataclass(frozen=True)
class Explanation:
    """Everything about one table's refresh.

    table: the declaration, with its method. reason: why this method. refused: by other method, why it was refused.
    nodes: every table by name. costs: recent seconds by strategy; empty if unknown. personal: by personal column, the
    columns of feeds that it copies. needs: what is needed of the inputs, as in the proof. small: tables that are known
    to be so small that reading all of their files costs nothing to speak of.
    """

    table: Table
    reason: str
    refused: Mapping[str, str]
    nodes: Mapping[str, Node]
    costs: Mapping[str, float]
    personal: Mapping[str, Sequence[str]] = field(default_factory=dict)
    needs: Mapping[str, Needs] = field(default_factory=dict)
    small: frozenset[str] = frozenset()

    @property
    def method(self) -> Method:
        """How the table is refreshed."""
        assert self.table.method is not None, "it is derived"
        return self.table.method

    def as_json(self) -> dict[str, Any]:
        """Return what ``medallion explain --format json`` prints.

        keys: the columns by which rows, groups or the newest rows are found. paths: by input, each path of columns that
        leads from a change to the keys. parts: the SQL by part whose state is kept, and that of the rest under "".
        needed: by input, what holds for every row that can matter, in SQL.
        """
        return {
            "table": self.table.name,
            "policy": self.table.refresh,
            "method": str(describe_method(self.method)["kind"]),
            "reason": self.reason,
            "keys": self.keys(),
            "paths": self.paths(),
            "parts": self.parts(),
            "needed": self.needed(),
            "refused": dict(self.refused),
            "personal": {column: [*origins] for column, origins in self.personal.items()},
            "cost": {"seconds": dict(self.costs), "notes": [*self._dear_steps()]},
        }

    def keys(self) -> list[str]:
        """Return the columns by which a change is followed."""
        match self.method:
            case ByKey(column):
                return [column]
            case Additive():
                groups = (key for part in self._split().parts.values() for key in part.keys)
                return [*dict.fromkeys(groups)]
            case Kept(parts):
                return [*dict.fromkeys(part.by.column for part in parts if part.by)]
            case Recent(column=column):
                return [column]
        return []

    def paths(self) -> dict[str, list[list[str]]]:
        """Return, by input, each path of columns that leads from a change of it to the key or the groups."""
        match self.method:
            case ByKey():
                return {name: [*_paths(name, self.method)] for name in self.table.inputs}
            case Kept(parts):
                return _by_input(path for part in parts for path in _paths_of(part))
            case Additive():
                return _by_input((part.input, [*part.keys]) for part in self._split().parts.values())
            case Recent(name, column):
                return {name: [[f"{name}.{column}"]]}
        return {}

    def parts(self) -> dict[str, str]:
        """Return the SQL of each part whose state is kept, and of the rest under ""."""
        if isinstance(self.method, Kept):
            kept = {part.name: _on_one_line(relation_text(part)) for part in self.method.parts}
            return {**kept, "": _on_one_line(self.method.rest)}
        if not isinstance(self.method, Additive):
            return {}
        split = self._split()
        return {**{name: _on_one_line(part.query) for name, part in split.parts.items()}, "": _on_one_line(split.rest)}

    def needed(self) -> dict[str, str]:
        """Return, by input, the condition that a row of it must meet for a change of it to be followed."""
        parts = self.method.parts if isinstance(self.method, Kept) else ()
        found = {name: {"": None} for part in parts for name in self._followed_anyway(part)}
        for needs in self.needs.values():
            for name in dict.fromkeys(read.input for read in needs.reads):
                found.setdefault(name, {})[needs.condition_of(name)] = None
        return {name: " OR ".join(conditions) for name, conditions in found.items() if "" not in conditions}

    def _followed_anyway(self, part: KeptPart) -> Sequence[str]:
        """Return the inputs of a kept relation of which every changed row is followed."""
        return part.whole if part.name in self.needs else inputs_of(relation_text(part))

    def lines(self) -> Iterator[str]:
        """Yield the lines that ``medallion explain`` prints."""
        yield f"{self.table.name}: {self.table.refresh_method} (refresh={self.table.refresh!r})"
        yield f"  {self.reason}"
        for title, entries in (("a change of", self._touched()), ("costly:", self._dear_steps())):
            for line in entries:
                yield f"  {title} {line}"
        for name, condition in self.needed().items():
            yield f"  of {name}, only these rows matter: {_on_one_line(_without_implied(condition))}"
        for name, sql in self.parts().items():
            yield f"  {f'kept as `{name}`' if name else 'computed from that'}:"
            yield from (f"    {line}" for line in sql_lines(sql))
            yield from self._counted_values(name)
        for method, why in self._own_refusals().items():
            yield f"  no {method}: {why}"
        if isinstance(self.method, Full):
            yield f"  what you can do: {self._advice()}"
        for column, origins in self.personal.items():
            yield f"  {column} is personal: copied from {', '.join(origins)}"
        for strategy, seconds in self.costs.items():
            yield f"  {strategy} lately: {seconds:.1f} s"

    def _counted_values(self, name: str) -> Iterator[str]:
        """Yield what the state of a kept relation counts besides the relation itself."""
        for part in self.method.parts if isinstance(self.method, Kept) else ():
            for aggregate, value in counted_values(part) if part.name == name else ():
                often = f"how often each value of {value} occurs in a group"
                yield f"  the state of `{name}` also counts {often}, for {aggregate}"

    def _own_refusals(self) -> dict[str, str]:
        """Return why other methods were refused, except what goes without saying.

        That is the reason for the method itself, and that a query without a condition on newest rows has none.
        """
        return {method: why for method, why in self.refused.items() if why not in {self.reason, NO_CONDITION}}

    def _advice(self) -> str:
        """Return what to do about a table that is recomputed in full."""
        if self.table.refresh == "full":
            return "take refresh='full' out of its declaration"
        if not self._own_refusals():
            return "nothing, unless it takes long"
        return "nothing, unless it takes long; then see 'Why a table is full' in Medallion's documentation"

    def _touched(self) -> Iterator[str]:
        """Yield what a change of each input touches."""
        match self.method:
            case ByKey(column):
                for name, paths in self.paths().items():
                    for steps in paths:
                        yield f"{name} touches the rows with its {column}: {' -> '.join(steps)}"
            case Additive():
                for name, part in self._split().parts.items():
                    yield f"{part.input} is added to the groups of `{name}` by {', '.join(part.keys)}"
                for name in self._split().inputs:
                    yield f"{name} recomputes all rows from what is kept"
            case Kept(parts):
                yield from (line for relation in parts for line in _touched_by(relation))
            case Recent(name, column, span):
                yield f"any input recomputes all rows, from the {_in_words(span)} of {name} before its largest {column}"
            case _:
                for name in self.table.inputs:
                    yield f"{name} recomputes all rows"

    def _dear_steps(self) -> Iterator[str]:
        """Yield the steps of a path that read all files of a table, because no statistics of the column prune them."""
        for name, step in self._ways():
            node = self.nodes[step.through]
            known = {*node.keys, *(getattr(node, "pruned_by", ()))}
            if isinstance(node, Table) and isinstance(node.method, ByKey):
                known.add(node.method.column)
            if step.as_column not in known and step.through not in self.small:
                yield (
                    f"a change of {name} reads every file of {step.through}, which is not pruned by {step.as_column}"
                )

    def _ways(self) -> Iterator[tuple[str, Via]]:
        """Yield each input that lacks the key with every step that leads from it towards the key."""
        followed = [self.method] if isinstance(self.method, ByKey) else []
        if isinstance(self.method, Kept):
            followed = [part.by for part in self.method.parts if part.by]
        steps = ((name, way) for by in followed for name, via in by.via.items() for way in via.ways)
        yield from dict.fromkeys(steps)

    def _split(self) -> Split:
        return split_of(self.table)


def _paths(name: str, by: ByKey) -> Iterator[list[str]]:
    """Yield each path of columns from an input to the key."""
    if name not in by.via:
        yield [f"{name}.{by.columns.get(name, by.column)}"]
        return
    for way in by.via[name].ways:
        for further in _paths(way.through, by):
            yield [f"{name}.{way.column}", f"{way.through}.{way.as_column}", *further]


def _paths_of(part: KeptPart) -> Iterator[tuple[str, list[str]]]:
    """Yield each input of a kept relation with a path of columns from a change of it to the key."""
    for name in inputs_of(relation_text(part)):
        if name not in part.whole:
            yield from ((name, steps) for steps in (_paths(name, part.by) if part.by else [[name]]))


def _by_input(paths: Iterable[tuple[str, list[str]]]) -> dict[str, list[list[str]]]:
    """Return the paths of each input, each once."""
    paths_by_input: dict[str, list[list[str]]] = {}
    for name, steps in paths:
        known = paths_by_input.setdefault(name, [])
        if steps not in known:
            known.append(steps)
    return paths_by_input


def _touched_by(part: KeptPart) -> Iterator[str]:
    """Yield what a change of each input of a kept relation touches."""
    for name in part.whole:
        yield f"{name} rebuilds `{part.name}`: every row of it may matter to every key"
    for name, steps in _paths_of(part):
        if part.by is None:
            yield f"{name} adds what its changed rows give to `{part.name}`"
        else:
            yield f"{name} touches the rows of `{part.name}` with its {part.by.column}: {' -> '.join(steps)}"


def _in_words(span: timedelta) -> str:
    """Return a span as ``7 days``, ``1 hour`` or whatever unit of time it is a multiple of."""
    seconds = int(span.total_seconds())
    unit, size = next((unit, size) for unit, size in _UNITS.items() if seconds % size == 0)
    return counted(seconds // size, unit)


def _without_implied(condition: str) -> str:
    """Return a condition without ``IS NOT NULL`` of columns that another part of it compares."""
    if " OR " in condition:
        return condition
    parts = condition.split(" AND ")
    compared = {column for column in map(_compared, parts) if column}
    return " AND ".join(part for part in parts if _NOT_NULL.sub(r"\1", part) not in compared)


def _compared(part: str) -> str:
    """Return the column that a part of a condition compares with a value, in quotes; empty if it does not."""
    found = _COMPARISON.fullmatch(part)
    return found[1] or found[2] if found else ""


def _on_one_line(sql: str) -> str:
    lines = (line.partition("--")[0] if "'" not in line else line for line in sql.splitlines())
    return " ".join(" ".join(lines).split())
