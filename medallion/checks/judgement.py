"""One expectation of a check: what is declared, the rows that are read for it, and the verdict."""

from dataclasses import dataclass

from medallion.checks.by_change import Look
from medallion.checks.findings import Finding
from medallion.checks.result import Verdict
from medallion.checks.scope_proof import why_unproven
from medallion.expect.scopes import Counted
from medallion.expect.vocabulary import Expectation

_NOT_JUDGED = Verdict(False, error="it was not judged")


@dataclass(frozen=True)
class Counts:
    """What Spark counted for one expectation.

    failed: the failed rows, or the rows that its query returns. checked: the rows with a value; None for a query.
    records: the records in the groups that its query returns; None if each row is one record.
    """

    failed: int
    checked: int | None = None
    records: int | None = None


@dataclass
class Judgement:
    """An expectation as declared, the rows that it reads, and the verdict, which may be that it cannot be judged.

    query: its SQL over whole tables, with views for its placeholders. counts: what Spark counted, if it did. note: why
    Spark did not count, although a table is large.
    """

    declared: Expectation
    look: Look
    query: str | None = None
    verdict: Verdict = _NOT_JUDGED
    counts: Counts | None = None
    note: str | None = None

    @property
    def passed(self) -> bool:
        """Whether there is a verdict, and it is that the expectation passed."""
        return self.verdict.success and not self.verdict.error

    @property
    def has_tolerance(self) -> bool:
        """Whether the next check of changed rows continues from the numbers of failed rows and of rows with a value."""
        return isinstance(self.declared.by_change, Counted) and why_unproven(self.declared) is None

    @property
    def finding(self) -> Finding:
        """What the report says of it."""
        return Finding(self.declared, self.verdict, self.look.way, self.query, self.note)
