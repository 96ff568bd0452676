"""How many rows a table has, against the last release: what no expectation about single rows can see."""

from dataclasses import dataclass
from math import inf

from medallion.checks.result import ExpectationResult

MIN_CHANGED_ROWS = 500  # a smaller change of a row count is never worth a warning


@dataclass(frozen=True)
class RowCountRule:
    """What a table's row count is judged by.

    before: rows in release ``release_id``. max_change: the share of them by which the count may change without a
    warning. may_be_empty: whether a table that had rows may have none.
    """

    before: int
    release_id: int
    max_change: float
    may_be_empty: bool

    def judge(self, rows: int) -> tuple[ExpectationResult, ...]:
        """The verdict on a table that has ``rows`` now: one result per promise."""
        observed = f"{rows:,} rows, {self.before:,} in release {self.release_id}"
        change = abs(rows - self.before)
        results = []
        if self.before and self.max_change < inf:
            moderate = change <= max(MIN_CHANGED_ROWS, self.max_change * self.before)
            results.append(
                ExpectationResult(
                    meaning=f"row count within {self.max_change:.0%} of the last release",
                    kind="RowCountAgainstLastRelease",
                    severity="warning",
                    success=moderate,
                    observed=observed,
                )
            )
        if not self.may_be_empty:
            results.append(
                ExpectationResult(
                    meaning="not emptied since the last release, unless declared with may_be_empty=True",
                    kind="NotEmptiedSinceLastRelease",
                    severity="critical",
                    success=rows > 0 or self.before == 0,
                    observed=observed,
                )
            )
        return tuple(results)
