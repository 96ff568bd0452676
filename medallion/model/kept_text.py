"""The SQL of a kept relation: the relation itself, its aggregate state, and the view that restores it from the state.

The state consists of values that add up: row counts of groups, sums, and counts of values. For an aggregate that does
not add up, such as MIN or COUNT(DISTINCT), the state also has its input values, each with a row count.
"""

from collections.abc import Iterable, Iterator
from string import Formatter

from medallion.model.methods import KeptItem, KeptPart

PREFIX = "_kept_"  # prefix of the names of kept relations
ROWS = "_rows"  # number of rows that a row of the state stands for; it is removed when this reaches 0
ADDS_UP = frozenset({"SUM", "COUNT", "AVG"})
OF_VALUES = frozenset({"MIN", "MAX", "COUNT DISTINCT"})
MAX_AVERAGED_ROWS = 10**9  # rows of one group; an average of more could be rounded differently from Spark's
MAX_AVERAGED_SUM = 2**53  # sum of integers, which Spark averages as DOUBLE
INEXACT = "medallion: an average is not exact"  # beginning of the error if one of these limits is exceeded


def relation_text(part: KeptPart) -> str:
    """Return the SQL of the relation as in the query, with its inputs in braces."""
    select_list = ", ".join(f"{_written(item)} AS {item.name}" for item in part.items)
    groups = [item.text for item in part.items if item.kind == "key"]
    if part.is_distinct:
        return f"{part.ctes}SELECT DISTINCT {select_list} {part.source}"
    by = f" GROUP BY {part.grouping or ', '.join(groups)}" if part.is_grouped and groups else ""
    return f"{part.ctes}SELECT {select_list} {part.source}{by}"


def state_text(part: KeptPart) -> str:
    """Return the SQL of the state of the relation: keys, values and counters of any rows of its inputs."""
    groups = [*_groups(part)]
    counters = [f"{text} AS {name}" for name, text in counters_of(part)]
    select_list = ", ".join([*(f"{text} AS {name}" for name, text in groups), *counters])
    by = f" GROUP BY {part.grouping or ', '.join(text for _, text in groups)}" if groups else ""
    return f"{part.ctes}SELECT {select_list} {part.source}{by}"


def group_names(part: KeptPart) -> list[str]:
    """Return the columns that identify a row of the state: keys, and values of aggregates that do not add up."""
    return [name for name, _ in _groups(part)]


def counters_of(part: KeptPart) -> Iterator[tuple[str, str]]:
    """Yield name and SQL of each counter."""
    for place, item in enumerate(part.items):
        only = f" FILTER (WHERE {item.condition})" if item.condition else ""
        if item.kind in {"SUM", "AVG"}:
            yield f"_s{place}", f"SUM({item.text}){only}"
        if item.kind in ADDS_UP:
            yield f"_v{place}", f"COUNT({item.text}){only}"
    yield ROWS, "COUNT(*)"


def counted_values(part: KeptPart) -> Iterator[tuple[str, str]]:
    """Yield, in SQL, each aggregate that does not add up with its input, of which the state counts every value."""
    for item in part.items:
        if item.kind in OF_VALUES:
            yield _written(item), item.text


def view_text(part: KeptPart) -> str:
    """Return the SQL that computes the relation from ``{state}``, which has each group once."""
    if not part.is_grouped:
        select_list = ", ".join(f"_k{place} AS {item.name}" for place, item in enumerate(part.items))
        copies = f"LATERAL VIEW EXPLODE(SEQUENCE(1, {ROWS})) _copies AS _copy"
        return f"SELECT {select_list} FROM {{state}} {copies} WHERE {ROWS} > 0"  # noqa: S608 (names of this module)
    has_values = any(item.kind in OF_VALUES for item in part.items)
    keys = [f"_k{place}" for place, item in enumerate(part.items) if item.kind == "key"]
    select_list = ", ".join(_of_state(item, place, has_values=has_values) for place, item in enumerate(part.items))
    where = f" WHERE {ROWS} > 0" if keys or has_values else ""
    by = f" GROUP BY {', '.join(keys)}" if keys and has_values else ""
    return f"SELECT {select_list} FROM {{state}}{where}{by}"  # noqa: S608 (names of this module)


def whole_text(parts: Iterable[KeptPart], rest: str) -> str:
    """Return the query of the table, reassembled from its kept relations and the rest."""
    ctes = []
    for part in parts:
        rest = rest.replace(f"{{{part.name}}}", part.name)
        ctes.append(f"{part.name} AS ({relation_text(part)})")
    more = f", {rest.removeprefix('WITH ')}" if rest.startswith("WITH ") else f" {rest}"
    return f"WITH {', '.join(ctes)}{more}"


def inputs_of(text: str) -> tuple[str, ...]:
    """Return the names in braces, in order, each once."""
    return tuple(dict.fromkeys(name for _, name, _, _ in Formatter().parse(text) if name))


def _written(item: KeptItem) -> str:
    if item.kind == "key":
        return item.text
    inner = f"COUNT(DISTINCT {item.text})" if item.kind == "COUNT DISTINCT" else f"{item.kind}({item.text})"
    return f"{inner} FILTER (WHERE {item.condition})" if item.condition else inner


def _groups(part: KeptPart) -> Iterator[tuple[str, str]]:
    for place, item in enumerate(part.items):
        if item.kind == "key":
            yield f"_k{place}", item.text
        elif item.kind in OF_VALUES:
            yield f"_d{place}", f"CASE WHEN {item.condition} THEN {item.text} END" if item.condition else item.text


def _of_state(item: KeptItem, place: int, *, has_values: bool) -> str:
    """Return the SQL of a column of the relation from the state. has_values: whether a group has a row per value."""
    if item.kind == "key":
        return f"_k{place} AS {item.name}"
    if item.kind in OF_VALUES:
        text = f"COUNT(DISTINCT _d{place})" if item.kind == "COUNT DISTINCT" else f"{item.kind}(_d{place})"
        return f"{text} AS {item.name}"
    count, total = (f"COALESCE(SUM({name}), 0)" if has_values else name for name in (f"_v{place}", f"_s{place}"))
    text = count
    if item.kind == "SUM":
        text = f"IF({count} > 0, {total}, NULL)"
    elif item.kind == "AVG":
        text = f"IF({count} > 0, {_average(item, total, count)}, NULL)"
    return f"CAST({text} AS {item.type}) AS {item.name}"


def _average(item: KeptItem, total: str, count: str) -> str:
    error = f"RAISE_ERROR('{INEXACT}')"
    if item.type == "double":
        return f"IF(ABS({total}) > {MAX_AVERAGED_SUM}, {error}, CAST({total} AS DOUBLE) / {count})"
    # For DECIMAL(p,s) Spark's sum is DECIMAL(p+10,s), and its average, the type of ``item``, is DECIMAL(p+4,s+4).
    precision, scale = map(int, item.type.removeprefix("decimal(").rstrip(")").split(","))
    total = f"CAST({total} AS DECIMAL({precision + 6}, {scale - 4}))"
    return f"IF({count} > {MAX_AVERAGED_ROWS}, {error}, {total} / CAST({count} AS DECIMAL(20, 0)))"
