"""The ``by_change`` that an expectation declares is proven right for its query, or refused with the reason.

A proof goes by shapes that are known to be right. What has another shape is refused, also where it might be right.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from medallion.checks.query_shapes import QueryShape
from medallion.checks.query_tree import Unreadable, instability, parse, parse_expression
from medallion.checks.unproven import Unproven, require, require_row_value
from medallion.errors import MedallionError
from medallion.expect.scopes import ByChange, Keys, Lookup, RowCount, Rows, Share, Sums, Tolerance, Window
from medallion.expect.vocabulary import Expectation, is_read_alike, passing_share, refers_to, unique

QUERY = "unexpected_rows_query"
_BY_VALUE = frozenset({"ExpectColumnValuesToNotBeNull", "ExpectColumnValuesToBeInSet", "ExpectColumnValuesToBeBetween"})


def require_proven(suites: Mapping[str, Sequence[Expectation]]) -> None:
    """Raise MedallionError for the first expectation whose by_change is not proven: table, reason and remedy."""
    for table, suite in suites.items():
        for expectation in suite:
            if expectation.by_change is not None and (reason := why_unproven(expectation)) is not None:
                scope = type(expectation.by_change).__name__
                raise MedallionError(
                    f"{table}: '{expectation.meaning}' cannot be judged by {scope}: {reason}; change the query, or"
                    " leave by_change out, and it is judged on whole tables"
                )


@cache
def why_unproven(expectation: Expectation) -> str | None:
    """Say why changed rows do not prove ``expectation`` as its by_change says; None where they do."""
    if (reason := why_unstable(expectation)) is not None:
        return reason
    try:
        _prove(expectation)
    except (Unproven, Unreadable) as error:
        return str(error)
    return None


def why_unstable(expectation: Expectation) -> str | None:
    """Say why ``expectation`` may get another verdict on the same rows, as one that reads the clock; None if not."""
    query = expectation.arguments.get(QUERY)
    return None if query is None or _is_unique(query, expectation.by_change) else _why_query_unstable(str(query))


@cache
def _why_query_unstable(query: str) -> str | None:
    try:
        return instability(parse(query))
    except Unreadable as error:
        return str(error)


def _is_unique(query: str | None, scope: ByChange | None) -> bool:
    """Whether it is the query of ``unique``, which numbers rows in any order and only asks how many there are."""
    return isinstance(scope, Keys) and query == unique(*scope.columns).arguments[QUERY]


def _prove(expectation: Expectation) -> None:
    query = expectation.arguments.get(QUERY)
    scope = expectation.by_change
    if scope is None or isinstance(scope, RowCount) or _is_unique(query, scope):  # proven where they are declared
        return
    if query is None:
        _prove_values(expectation)
    elif isinstance(scope, Sums | Share):
        _prove_generated(str(query), scope)
    else:
        _prove_shape(QueryShape(parse(str(query))), scope)


def _prove_values(expectation: Expectation) -> None:
    """An expectation about the values of a column, one by one."""
    condition, tolerates = expectation.condition, "mostly" in expectation.arguments
    require(expectation.kind in _BY_VALUE and condition is not None, "it is not about single values")
    match expectation.by_change:
        case Rows():
            require(not tolerates, "some rows may fail")
        case Tolerance(counted, percent):
            require(tolerates and counted == condition, "it counts other rows than those that fail")
            mostly = passing_share(percent)
            require(expectation.arguments["mostly"] == mostly, f"{percent} % may fail where mostly is {mostly}")
        case scope:
            raise Unproven(f"{type(scope).__name__} is about a query, which it does not have")
    if condition is not None and is_read_alike(condition):
        require_row_value(parse_expression(condition))


def _prove_generated(query: str, scope: Sums | Share) -> None:
    """A query that follows from its by_change."""
    if isinstance(scope, Share):
        made = refers_to(scope.column, scope.table, scope.key, allowed_percent=scope.allowed_percent)
        require(query == made.arguments[QUERY], "only refers_to makes its query")
        return
    require(query == scope.whole(), "only adds_up makes its query")
    for text in (scope.where, *(part for _, here, there in scope.measures for part in (here, there))):
        require_row_value(parse_expression(text))


def _prove_shape(shape: QueryShape, scope: ByChange) -> None:
    """A query of the author's own."""
    match scope:
        case Rows():
            shape.by_rows()
        case Keys(columns):
            shape.by_keys(columns)
        case Lookup(others):
            shape.by_lookup({table: (key, column) for table, key, column in others})
        case Window():
            shape.by_window(scope)
        case other:
            raise Unproven(f"{type(other).__name__} has no query of its own")


def main() -> None:
    """Prove what every expectation of the project declares: a part of ``make check``."""
    from medallion.checks.suites import suites
    from medallion.project import find_project

    project = find_project()
    every = project.registry(extras=True)
    count = 0
    try:
        for layer in every.layers:
            of_layer = suites(project, layer, every)
            require_proven(of_layer)
            count += sum(expectation.by_change is not None for suite in of_layer.values() for expectation in suite)
    except MedallionError as error:
        raise SystemExit(f"medallion: {error}") from None
    print(f"Changed rows prove {count} expectations.")


if __name__ == "__main__":
    main()
