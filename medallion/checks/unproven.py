"""How a proof that changed rows are enough refuses an expectation, with the reason."""

from collections.abc import Mapping
from typing import Any

from medallion.checks.query_tree import has_aggregate, has_subquery, has_window, instability


class Unproven(Exception):
    """What stands in the way of a proof."""


def require(condition: object, otherwise: str) -> None:
    """Raise Unproven, which says ``otherwise``, unless ``condition`` holds."""
    if not condition:
        raise Unproven(otherwise)


def require_row_value(expression: Any, where: str = "an expression") -> None:
    """Raise Unproven unless ``expression`` is computed from the row at hand alone."""
    require(not has_subquery(expression), f"{where} has a subquery")
    require(not has_window(expression), f"{where} has a window function")
    require(not has_aggregate(expression), f"{where} has an aggregate")
    stable = expression if isinstance(expression, Mapping) else {"parts": expression}
    if (reason := instability(stable)) is not None:
        raise Unproven(reason)
