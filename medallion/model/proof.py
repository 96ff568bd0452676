"""The declared refresh method of each table is proven right for its query, or refused with the reason.

Databricks says the same of a query before it is made a materialized view (EXPLAIN CREATE MATERIALIZED VIEW), and the
words are alike. What cannot be proven is refused, also where it might be right.
"""

from collections.abc import Iterable, Mapping

from sqlglot import exp

from medallion.errors import MedallionError
from medallion.model.determinism import unknown_function, unstable
from medallion.model.parsed_query import Nondeterministic, Schemas, Unprovable, parse
from medallion.model.proof_additive import prove_additive
from medallion.model.proof_by_key import prove_by_key
from medallion.model.proof_order import prove_order
from medallion.model.proof_recent import prove_recent
from medallion.model.table import Additive, ByKey, Feed, Log, Recent, Table


def prove(tables: Iterable[Table], nodes: Mapping[str, Feed | Log | Table]) -> None:
    """Prove that the refresh method of each table gives the rows of its query.

    Args:
        tables: Those to prove.
        nodes: Every table by name, for the columns of what they read.

    Raises:
        MedallionError: The refresh method of a table could give other rows; table, construct and remedy are named.
    """
    schemas = Schemas(nodes)
    for table in tables:
        try:
            _prove(table, schemas)
        except Unprovable as reason:
            is_final = table.incremental is None or isinstance(reason, Nondeterministic)
            instead = "" if is_final else "; change the query, or leave `incremental` out"
            refused = f"{table.name} cannot be refreshed by {table.refresh_method}"
            raise MedallionError(f"{refused}: {reason}{instead}") from None
        except MedallionError as error:
            raise MedallionError(f"{table.name}: {error}") from None


def _prove(table: Table, schemas: Schemas) -> None:
    tree = parse(table.query, table.inputs)
    if function := unstable(tree):
        raise Nondeterministic(function)
    if table.incremental is not None and (function := unknown_function(tree)):
        raise Unprovable(f"{function} is not known to be deterministic")
    if table.incremental is not None:
        _require_distinct_names(tree, table)
    match table.incremental:
        case ByKey() as method:
            prove_by_key(table, method, schemas)
        case Additive() as method:
            prove_additive(table, method, schemas)
        case Recent() as method:
            prove_recent(table, method)
    prove_order(tree, schemas)


def _require_distinct_names(tree: exp.Query, table: Table) -> None:
    """Raise Unprovable where a name in the query means two things, as a query is split and restricted by names."""
    names = [cte.alias.lower() for cte in tree.find_all(exp.CTE)]
    for name in names:
        if name in {known.lower() for known in table.inputs}:
            raise Unprovable(f"`{name}` is a common table expression and an input: give the expression another name")
        if names.count(name) > 1:
            raise Unprovable(f"two common table expressions are called `{name}`: give one another name")


def main() -> None:
    """Prove every table of the project: a part of ``make check``."""
    from medallion.model.registry import registry

    every = registry(extras=True)
    tables = [table for table in every if isinstance(table, Table)]
    try:
        prove(tables, every.tables)
    except MedallionError as error:
        raise SystemExit(f"medallion: {error}") from None
    print(f"The refresh methods of {len(tables)} tables are proven.")


if __name__ == "__main__":
    main()
