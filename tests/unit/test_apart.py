"""What is proposed as state of a query, whatever is proven of it later: without Spark."""

from dataclasses import replace

from medallion.derive.apart import kept_of
from medallion.model.methods import Kept, KeptPart
from medallion.model.plan import Unprovable


def accepted(part: KeptPart) -> KeptPart:
    """A part as a proof completes it: with types, and with inputs that are read whole."""
    return replace(part, items=tuple(replace(item, type="int") for item in part.items), whole=("silver_t",))


def without_subqueries(part: KeptPart) -> KeptPart:
    if "SELECT" in part.source:
        raise Unprovable("it has a subquery")
    return part


def rest(query: str, parts: int) -> str:
    kept, _ = kept_of(query, accepted)
    assert isinstance(kept, Kept) and len(kept.parts) == parts
    return kept.rest


GROUPS = "SELECT d, SUM(v) AS s FROM {silver_t} GROUP BY d"


def test_groups_that_a_query_has_twice_are_kept_once_and_read_twice() -> None:
    once = "(SELECT d AS d, s AS s FROM {_kept_0})"
    assert rest(f"SELECT a.d, b.s FROM ({GROUPS}) AS a INNER JOIN ({GROUPS}) AS b ON a.d = b.d", 1) == (
        f"SELECT a.d, b.s FROM {once} AS a INNER JOIN {once} AS b ON a.d = b.d"
    )


def test_each_of_two_conditions_that_compare_rows_with_one_aggregate_is_left_to_the_rest() -> None:
    mean = "(SELECT AVG(v) FROM {silver_u})"
    kept, _ = kept_of(f"SELECT k FROM {{silver_t}} WHERE v > {mean} AND w < {mean}", without_subqueries)
    assert kept is not None
    mean = "(SELECT _0 AS _ FROM {_kept_0})"
    assert kept.rest == f"SELECT k AS k FROM {{_kept_1}} WHERE v > {mean} AND w < {mean}"


def test_a_common_table_expression_is_found_in_any_letter_case() -> None:
    assert rest(f"WITH Days AS ({GROUPS}) SELECT d FROM days WHERE s > 3", 1) == (
        "WITH Days AS (SELECT d AS d, s AS s FROM {_kept_0}) SELECT d FROM days WHERE s > 3"
    )


def test_a_function_over_a_window_makes_no_groups() -> None:
    last = "LAST_VALUE(v) IGNORE NULLS OVER (PARTITION BY k ORDER BY v)"
    assert rest(f"SELECT k, {last} AS l FROM {{silver_t}}", 1) == f"SELECT k AS k, {last} AS l FROM {{_kept_0}}"
