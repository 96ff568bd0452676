"""How many rows a table has and drops, against what is declared, the last release and its own history.

What no expectation about single rows can see. Each rule gives results like those of Great Expectations, with the number
that the next check compares with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from medallion.checks.result import EXAMPLES, CheckResult, ExpectationResult, to_example
from medallion.errors import one_line
from medallion.model.table import BROKEN, Drop
from medallion.ops.check_records import History

if TYPE_CHECKING:
    from medallion.storage.duckdb_views import Views

MIN_CHANGED_ROWS = 500  # a smaller change of a row count is worth no warning, unless most of the rows are lost
MIN_HISTORY = 6  # earlier values without which nothing counts as a jump
MAX_HISTORY = 48  # checks that are remembered
DEVIATIONS = 3.0
SAME_SHARE = 0.02  # a difference below this share of the usual value is never a jump
NOT_COMPARED = "not compared"  # what is said of a check that has too little history to judge by
ROW_COUNT_IN_HISTORY = "row count grows as in its own history"
ROW_COUNT_BOUND = "row count within "  # begins what a declared bound means


@dataclass(frozen=True)
class RowCountRule:
    """What a table's row count is judged by.

    before: rows in release ``release_id``. max_change: the share of them by which the count may change without a
    warning. may_be_empty: whether a table that had rows may have none. history: its row counts at earlier hours.
    erasing: whether persons are being erased: then fewer rows are what was asked for, and are counted alone.
    """

    before: int
    release_id: int
    max_change: float
    may_be_empty: bool
    history: Sequence[float] = ()
    erasing: bool = False

    def judge(self, rows: int) -> tuple[ExpectationResult, ...]:
        """The verdict on a table that has ``rows`` now: one result per expectation."""
        observed = f"{rows:,} rows, {self.before:,} in release {self.release_id}{_loss_in_words(rows, self.before)}"
        results = []
        if self.max_change < inf:
            counted = self._in_history(rows)
            if self.erasing:
                return (replace(counted, success=True, observed=f"{observed}; persons are being erased"),)
            results.append(counted)
        if self.erasing:
            return ()
        if self.before and self.max_change < inf:
            moderate = abs(rows - self.before) <= max(self._small_change(rows), self.max_change * self.before)
            results.append(
                ExpectationResult(
                    meaning=f"{ROW_COUNT_BOUND}{self.max_change:.0%} of the last release, or {MIN_CHANGED_ROWS} more",
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

    def _small_change(self, rows: int) -> float:
        """The change of the row count that is worth no warning, whatever its share.

        A small table may well double. One that loses most of its rows is news however small it is, unless it may even
        be empty.
        """
        if rows >= self.before or self.may_be_empty:
            return MIN_CHANGED_ROWS
        return min(MIN_CHANGED_ROWS, self.max_change * self.before)

    def _in_history(self, rows: int) -> ExpectationResult:
        """Compare what the table grows by, not what it holds."""
        growth = [later - former for former, later in pairwise((*self.history, rows))]
        observed, success = f"{rows:,} rows", True
        if len(growth) > MIN_HISTORY:
            usual = self.history[-1]
            success = not is_jump(growth, max(self._small_change(rows), SAME_SHARE * usual))
            if not success:
                observed += f", about {usual + fmean(growth[:-1]):,.0f} were expected from its history"
        else:
            observed += f"; {NOT_COMPARED}: {len(self.history)} of {MIN_HISTORY + 1} earlier hours are known"
        return ExpectationResult(
            meaning=ROW_COUNT_IN_HISTORY,
            kind="RowCountInHistory",
            severity="warning",
            success=success,
            observed=observed,
            measure=rows,
        )


def _loss_in_words(rows: int, before: int) -> str:
    if rows >= before:
        return ""
    return f": {100 * (before - rows) / before:.3g} % fewer" if rows else ": all are gone"


@dataclass(frozen=True)
class DropRule:
    """What the share of rows that ``table`` drops for one reason is judged by. history: the share at earlier hours."""

    table: str
    drop: Drop
    history: Sequence[float] = ()

    def judge(self, dropped: int, kept: int) -> ExpectationResult:
        """The verdict on so many rows: dropping is by design, a jump of its share is worth a warning."""
        share = dropped / max(1, dropped + kept)
        amount = f"{dropped:,} dropped ({100 * share:.1f} % of {self.table})"
        reason = self._why_too_many(share)
        return ExpectationResult(
            meaning=self.drop.meaning,
            kind="DroppedRows",
            severity="warning",
            success=reason is None,
            observed=f"ok, {amount}" if reason is None else f"{amount}, {reason}",
            unexpected_count=dropped,
            unexpected_percent=100 * share,
            records=dropped + kept,
            measure=share,
        )

    def _why_too_many(self, share: float) -> str | None:
        bound = self.drop.max_share
        if bound is not None:
            return f"more than the declared {100 * bound:g} %" if share > bound else None
        if len(self.history) < MIN_HISTORY:
            return None
        usual = fmean(self.history)
        if not is_jump((*self.history, share), SAME_SHARE * usual):
            return None
        return f"a jump from the usual {100 * usual:.1f} %"


@dataclass(frozen=True)
class VolumeRules:
    """What the number of rows of one table is judged by. row_count: None before the first release."""

    row_count: RowCountRule | None = None
    drops: tuple[DropRule, ...] = ()

    def judge(self, table: str, views: "Views") -> tuple[ExpectationResult, ...]:
        """The verdicts on ``table``; none where it cannot be read, which has failed already."""
        if table not in views.rows:
            return ()
        counted = self.row_count.judge(views.rows[table]) if self.row_count else ()
        return (*counted, *(_judge_drop(rule, table, views) for rule in self.drops if rule.table in views.rows))


def _judge_drop(rule: DropRule, table: str, views: "Views") -> ExpectationResult:
    reason = rule.drop.reason.replace("'", "''")
    query = f"SELECT * FROM {table} WHERE CONTAINS('; ' || {BROKEN} || '; ', '; {reason}; ')"
    try:
        (dropped,) = views.connection.execute(f"SELECT COUNT(*) FROM ({query})").fetchall()[0]
    except Exception as error:  # whatever it was, the gate stays shut
        result = replace(rule.judge(0, 0), success=False, error=one_line(error), unexpected_count=None, measure=None)
        return replace(result, observed="no verdict", query=query)
    result = replace(rule.judge(dropped, views.rows[rule.table]), query=query)
    if result.success:
        return result
    return replace(result, examples=tuple(to_example(row, BROKEN) for row in views.sample(query, EXAMPLES)))


def is_jump(values: Sequence[float], floor: float) -> bool:
    """Whether the last of ``values`` lies further from the others than DEVIATIONS, and further than ``floor``."""
    usual, newest = values[:-1], values[-1]
    return abs(newest - fmean(usual)) > max(DEVIATIONS * pstdev(usual), floor)


def earlier_measures(history: History, table: str, meaning: str, hour: str | None) -> list[float]:
    """Return what an expectation measured at hours before ``hour``, oldest first; None is the snapshot."""
    by_hour = history.get(table, {}).get(meaning, {})
    return [by_hour[former] for former in sorted(by_hour) if former < (hour or "")]


def extend_history(history: History, result: CheckResult, hour: str | None) -> History:
    """Return ``history`` with what ``result`` measured at ``hour``: hours after it were undone, and are left out."""
    now = hour or ""
    extended: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for table in result.tables:
        for expectation in table.expectations:
            if expectation.measure is None:
                continue
            by_hour = history.get(table.table, {}).get(expectation.meaning, {})
            earlier = sorted(former for former in by_hour if former < now)[1 - MAX_HISTORY :]
            kept = {former: by_hour[former] for former in earlier} | {now: expectation.measure}
            extended[table.table] = {**extended.get(table.table, {}), expectation.meaning: kept}
    return extended
