"""Judge how many rows a table has and drops: by what is declared, by the last release and by its own history.

No expectation about single rows can see that. Each rule returns results like those of Great Expectations, with the
number that the next check compares with.
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
from medallion.sql_text import text_literal

if TYPE_CHECKING:
    from medallion.storage.duckdb_views import Views

MIN_CHANGED_ROWS = 500  # a smaller change of a row count is worth no warning, unless most of the rows are lost
MIN_HISTORY = 6  # fewest earlier values, or earlier growths of a row count, to tell a jump from
MAX_HISTORY = 48  # hours that are remembered
DEVIATIONS = 3.0  # standard deviations from the mean, beyond which a value is a jump
SAME_SHARE = 0.02  # a difference below this share of the usual value is never a jump
NOT_COMPARED = "not compared"  # in the result of a rule that has too little history
ROW_COUNT_IN_HISTORY = "row count grows as in its own history"
ROW_COUNT_BOUND = "row count within "  # how the meaning of a declared bound begins


@dataclass(frozen=True)
class RowCountRule:
    """What a table's row count is judged by.

    before: rows in release ``release_id``. max_change: the share of them by which the count may change without a
    warning. may_be_empty: whether a table that had rows may have none. history: its row counts at earlier hours, oldest
    first. erasing: whether persons are being erased: fewer rows are then expected, so the count is only recorded.
    """

    before: int
    release_id: int
    max_change: float
    may_be_empty: bool
    history: Sequence[float] = ()
    erasing: bool = False

    def judge(self, rows: int) -> tuple[ExpectationResult, ...]:
        """Return a result for each expectation on a table that has ``rows`` now."""
        observed = f"{rows:,} rows, {self.before:,} in release {self.release_id}{_loss_in_words(rows, self.before)}"
        results = []
        if self.max_change < inf:
            counted = self._in_history(rows)
            if self.erasing:
                counted = replace(counted, success=True, observed=f"{observed}; persons are being erased")
            results.append(counted)
        if self.erasing:
            return tuple(results)
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
        """Return the change of the row count, in rows, that is worth no warning whatever its share.

        A small table may well double. If it loses most of its rows, that is worth a warning however small it is, unless
        it may even be empty.
        """
        if rows >= self.before or self.may_be_empty:
            return MIN_CHANGED_ROWS
        return min(MIN_CHANGED_ROWS, self.max_change * self.before)

    def _in_history(self, rows: int) -> ExpectationResult:
        """Compare by how many rows the table has grown with its growth at earlier hours."""
        growth = [later - former for former, later in pairwise((*self.history, rows))]
        observed, success = f"{rows:,} rows", True
        if len(growth) > MIN_HISTORY:
            last = self.history[-1]
            success = not is_jump(growth, max(self._small_change(rows), SAME_SHARE * last))
            if not success:
                observed += f", about {last + fmean(growth[:-1]):,.0f} were expected from its history"
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
    """How the share of rows that ``table`` drops for one reason is judged. history: the share at earlier hours."""

    table: str
    drop: Drop
    history: Sequence[float] = ()

    def judge(self, dropped: int, kept: int) -> ExpectationResult:
        """Return the result for so many rows: dropping is by design, a jump of its share is worth a warning."""
        share = dropped / max(1, dropped + kept)
        amount = f"{dropped:,} dropped ({100 * share:.1f} % of {self.table})"
        reason = self._why_too_many(share)
        return ExpectationResult(
            meaning=self.drop.meaning,
            kind="DroppedRows",
            severity="warning",
            success=reason is None,
            observed=amount if reason is None else f"{amount}, {reason}",
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
        """Return the results for ``table``; none if it cannot be read, because that has failed the check already."""
        if table not in views.rows:
            return ()
        counted = self.row_count.judge(views.rows[table]) if self.row_count else ()
        return (*counted, *(_judge_drop(rule, table, views) for rule in self.drops if rule.table in views.rows))


def _judge_drop(rule: DropRule, table: str, views: "Views") -> ExpectationResult:
    reason = text_literal(f"; {rule.drop.reason}; ")
    query = f"SELECT * FROM {table} WHERE CONTAINS('; ' || {BROKEN} || '; ', {reason})"
    try:
        (dropped,) = views.connection.execute(f"SELECT COUNT(*) FROM ({query})").fetchall()[0]
    except Exception as error:  # whatever it was, the check fails
        result = replace(rule.judge(0, 0), success=False, error=one_line(error), unexpected_count=None, measure=None)
        return replace(result, observed="no verdict", query=query)
    result = replace(rule.judge(dropped, views.rows[rule.table]), query=query)
    if result.success:
        return result
    return replace(result, examples=tuple(to_example(row, BROKEN) for row in views.sample(query, EXAMPLES)))


def is_jump(values: Sequence[float], floor: float) -> bool:
    """Whether the last of ``values`` differs from the mean of the others by more than DEVIATIONS and ``floor``."""
    usual, newest = values[:-1], values[-1]
    return abs(newest - fmean(usual)) > max(DEVIATIONS * pstdev(usual), floor)


def earlier_measures(history: History, table: str, meaning: str, hour: str | None) -> list[float]:
    """Return what an expectation measured before ``hour``, oldest first; hour: None for the snapshot."""
    by_hour = history.get(table, {}).get(meaning, {})
    return [by_hour[former] for former in sorted(by_hour) if former < (hour or "")]


def extend_history(history: History, result: CheckResult, hour: str | None) -> History:
    """Return ``history`` with what ``result`` measured at ``hour``.

    Hours after it were undone, and are left out. A table that could not be read, and an expectation that measured
    nothing now, keep their earlier values.
    """
    now = hour or ""
    extended: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for table in result.tables:
        known = history.get(table.table, {})
        measured = {each.meaning: {now: each.measure} for each in table.expectations if each.measure is not None}
        by_meaning: dict[str, Mapping[str, float]] = {}
        for meaning in dict.fromkeys((*known, *measured)):
            by_hour = known.get(meaning, {})
            earlier = sorted(former for former in by_hour if former < now)[1 - MAX_HISTORY :]
            if values := {former: by_hour[former] for former in earlier} | measured.get(meaning, {}):
                by_meaning[meaning] = values
        if by_meaning:
            extended[table.table] = by_meaning
    return extended
