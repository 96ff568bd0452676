"""Compare the rows of two lakes; only if they are equal does it matter which one was refreshed faster."""

from collections.abc import Iterable, Mapping, Sequence

from medallion.inspect.query import digest, open_release, types_of
from medallion.model.table import Node, Table
from medallion.ops import releases
from medallion.storage.lake import Lake

TOLERANCE = 1e-6  # relative, for decimals and doubles; everything else is compared exactly


def differing(first: Lake, second: Lake, tables: Iterable[Node]) -> list[str]:
    """Return the computed ``tables`` whose rows differ between the newest releases of two lakes, with row counts."""
    a, b = releases.require_release(first, None), releases.require_release(second, None)
    wrong = [] if a.hour == b.hour else [f"the hour: {a.hour} and {b.hour}"]
    with open_release(first, a) as left, open_release(second, b) as right:
        for table in tables:
            if not isinstance(table, Table):
                continue
            types = types_of(left, table.name)
            others = _same_scale(types, types_of(right, table.name))
            if digest(left, table.name, types) == digest(right, table.name, others):
                continue
            left.register("other_rows", right.execute(f"SELECT * FROM {table.name}").to_arrow_table())  # noqa: S608
            ((count,),) = left.execute(_difference(table.name, table.keys, types)).fetchall()
            left.unregister("other_rows")
            if count:
                wrong.append(f"{table.name} ({count:,} rows)")
    return wrong


def _same_scale(types: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return ``others`` with each DECIMAL as in ``types`` if only its precision differs, as its values are the same."""

    def scale(kind: str | None) -> str:
        return kind.partition(",")[2] if kind and kind.startswith("DECIMAL") else ""

    return {
        name: types[name] if scale(kind) and scale(kind) == scale(types.get(name)) else kind
        for name, kind in others.items()
    }


def _difference(table: str, keys: Sequence[str], types: Mapping[str, str]) -> str:
    """Return a query that counts rows that exist on one side only, or differ by more than rounding."""
    apart = []
    for name, kind in types.items():
        a, b = f'a."{name}"', f'b."{name}"'
        differ = f"{a} IS DISTINCT FROM {b}"
        if kind.startswith(("DECIMAL", "DOUBLE", "FLOAT")):
            gap = f"ABS({a}::DOUBLE - {b}::DOUBLE) > {TOLERANCE} * GREATEST(ABS({a}::DOUBLE), ABS({b}::DOUBLE))"
            differ = f"({a} IS NULL) <> ({b} IS NULL) OR {gap}"
        apart.append(f"COALESCE({differ}, FALSE)")
    on = " AND ".join(f'a."{key}" IS NOT DISTINCT FROM b."{key}"' for key in keys)
    sides = f"(SELECT 1 AS a_row, * FROM {table}) AS a FULL JOIN (SELECT 1 AS b_row, * FROM other_rows) AS b ON {on}"  # noqa: S608
    return f"SELECT COUNT(*) FROM {sides} WHERE a_row IS NULL OR b_row IS NULL OR {' OR '.join(apart)}"  # noqa: S608
