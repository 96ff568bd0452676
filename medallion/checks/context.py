"""What a check knows beside the tables, and how what failed is traced to the changes of the hour."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import TYPE_CHECKING, Protocol

from medallion.checks.by_change import Basis
from medallion.checks.result import ExpectationResult
from medallion.checks.scope_proof import QUERY
from medallion.checks.volumes import VolumeRules
from medallion.expect.scopes import Lookup, Share
from medallion.expect.vocabulary import Expectation
from medallion.storage.duckdb_views import Views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class FindOrigins(Protocol):
    """Finds the changes that what failed may come from."""

    def __call__(self, tables: Sequence[str], records: Sequence[Mapping[str, str | None]]) -> tuple[str, ...]:
        """Return a sentence per change file.

        Args:
            tables: The table under check, then those that it was compared with.
            records: Failed records, column to value as text.
        """


@dataclass(frozen=True)
class SparkChecks:
    """How large tables are checked.

    from_bytes: the size from which Spark reads a table where all of it must be read. start: returns the session, and
    starts it when first called.
    """

    from_bytes: int
    start: "Callable[[], SparkSession]"

    def large_tables(self, views: Views) -> frozenset[str]:
        """Return the tables that Spark reads where all of a table must be read."""
        return frozenset(name for name, size in views.bytes.items() if size >= self.from_bytes)


@dataclass(frozen=True)
class CheckContext:
    """What a check knows beside the tables.

    volumes: what the numbers of rows of tables are judged by. basis: the former check from which changed rows are
    judged; without one, whole tables are. origins: None where no change files belong to what is checked. spark: None if
    DuckDB reads tables of any size.
    """

    volumes: Mapping[str, VolumeRules] = field(default_factory=dict)
    basis: Basis | None = None
    origins: FindOrigins | None = None
    spark: SparkChecks | None = None

    def judge_volumes(self, table: str, views: Views) -> Sequence[ExpectationResult]:
        """Return the verdicts on the number of rows of ``table``."""
        return self.volumes[table].judge(table, views) if table in self.volumes else ()

    def trace(self, result: ExpectationResult, table: str, declared: Expectation | None = None) -> ExpectationResult:
        """Return ``result`` with the change files that it may come from, where it failed."""
        if result.success or result.error or self.origins is None:
            return result
        others, references = sorted(tables_in_query(declared)) if declared else [], _references(declared)
        # A row of another table is looked up by its key, whatever the column that refers to it is called.
        records = [
            {key: example.get(column) for key, column in references.items()} | dict(example)
            for example in result.examples
        ]
        return replace(result, origins=self.origins([table, *others], records))


def _references(expectation: Expectation | None) -> dict[str, str]:
    """Return the keys of other tables that an expectation looks up, each with the column that refers to it."""
    match expectation.by_change if expectation else None:
        case Lookup(others):
            return {key: column for _, key, column in others}
        case Share(column, _, key, _):
            return {key: column}
    return {}


def placeholders(query: str) -> set[str]:
    """Return the names in braces of a query."""
    try:
        return {name for _, name, _, _ in Formatter().parse(query) if name}
    except ValueError:  # a brace too many: binding the query says so
        return set()


def bind(query: str, table: str) -> str:
    """Return a query with views for its placeholders: ``table`` for {batch}, and a view of the same name for others."""
    return query.format(**{name: name for name in placeholders(query)} | {"batch": table})


def tables_in_query(expectation: Expectation) -> set[str]:
    """Return the tables that the expectation's query names, besides its own."""
    return placeholders(expectation.arguments.get(QUERY, "")) - {"batch"}
