"""Check the key of an upsert and the paths to it: the columns that they name exist in the inputs and have one type."""

from collections.abc import Mapping

from medallion.model.methods import ByKey, Via
from medallion.model.plan import Column, Unprovable

# Only values of these types have the same text everywhere.
_KEY_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "string", "date"})

Inputs = Mapping[str, tuple[Column, ...]]


def key_columns(method: ByKey, inputs: Inputs) -> dict[str, str]:
    """Return the key column of each input that has one, as it is spelled there."""
    key_names = {}
    for name, columns in inputs.items():
        alike = [column for column, _, _ in columns if column.lower() == method.column.lower()]
        if len(alike) > 1:
            raise Unprovable(f"{name} has several columns called {method.column}: give them other names")
        if alike:
            key_names[name] = alike[0]
    return key_names


def require_one_type(method: ByKey, inputs: Inputs, restricted: Mapping[str, str]) -> None:
    """Raise Unprovable unless the key has the same type in every input, as its values are looked up in each."""
    types = {name: kind for name in restricted for column, kind, _ in inputs[name] if column == restricted[name]}
    if len(set(types.values())) > 1:
        shown = ", ".join(f"{kind.upper()} in {name}" for name, kind in types.items())
        raise Unprovable(f"{method.column} is {shown}: declare it with one type")
    kind = next(iter(types.values()))
    if kind not in _KEY_TYPES:
        raise Unprovable(
            f"{method.column} is {kind.upper()}, whose values cannot be listed: take integers, text or DATE"
        )


def require_via(method: ByKey, inputs: Inputs, keyed: Mapping[str, str]) -> None:
    if not keyed:
        raise Unprovable(f"no input has a column {method.column}")
    for name in method.via:
        if name not in inputs:
            raise Unprovable(f"a path names {name}, which its query does not read")
        if name in keyed:
            raise Unprovable(f"a path names {name}, which has {method.column} itself")
    for name in inputs:
        if name not in keyed and name not in method.via:
            raise Unprovable(f"{name} has no {method.column}, and no join leads from its rows to one")
    for name in method.via:
        _require_path(method, name, frozenset({name}), inputs, keyed)


def _require_path(method: ByKey, name: str, seen: frozenset[str], inputs: Inputs, keyed: Mapping[str, str]) -> None:
    """Raise Unprovable unless every path from an input ends in an input that has the key."""
    if name in keyed:
        return
    for via in method.via[name].ways:
        if via.through not in inputs or via.through in seen:
            raise Unprovable(f"a path leads from {name} to {via.through}, which is not another of its inputs")
        _require_columns(name, via, inputs)
        _require_path(method, via.through, seen | {via.through}, inputs, keyed)


def _require_columns(name: str, via: Via, inputs: Inputs) -> None:
    """Raise Unprovable unless the columns that ``via`` names exist and have the same type."""
    types = []
    for place, column in ((name, via.column), (via.through, via.as_column)):
        kinds = [kind for known, kind, _ in inputs[place] if known == column]
        if not kinds:
            raise Unprovable(f"a path names {column}, which is no column of {place}")
        types += kinds
    if types[0] != types[1]:
        raise Unprovable(
            f"a path leads from {name}.{via.column}, {types[0].upper()}, to {via.through}.{via.as_column},"
            f" {types[1].upper()}: declare them with one type"
        )
