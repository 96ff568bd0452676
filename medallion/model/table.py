"""What a table is: a change feed or a change log in Bronze, a query in every layer above. Values only, no Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from string import Formatter
from textwrap import dedent

from medallion.expect.literals import with_lists
from medallion.expect.vocabulary import Expectation, not_null, unique
from medallion.hours import ONE_HOUR, parse_hour
from medallion.model.chart import Chart
from medallion.model.column_types import parse_columns
from medallion.model.columns import ORIGIN, Column, descriptions_of
from medallion.model.delivery import USUAL, Delivery
from medallion.model.methods import Additive, ByKey, Full, Kept, Method, Recent
from medallion.model.refresh_method import RefreshMethod

STRATEGIES = ("full", "incremental")
DELETE, BLANK = "delete", "blank"  # what erasing a person does to a row of a feed
QUARANTINE = "quarantine_"  # prefix of the name of a table of dropped rows
BROKEN = "_broken"  # column of such a table with the expectations that a row fails
BESIDE_A_CHANGE = ("_line", "_deleted")  # line in the file, and whether it deletes: reserved, not columns of a feed
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)  # earliest event time; the first versions of dimensions begin then
MAX_ROW_CHANGE = 0.5  # share of its rows by which a table may grow or shrink between two releases without a warning


@dataclass(frozen=True)
class Drop:
    """Why a table drops rows: they fail the expectation ``reason``.

    max_share: the share of rows, 0 to 1, above which dropping is a warning; None to compare only with its history.
    """

    reason: str
    max_share: float | None = None

    @property
    def meaning(self) -> str:
        """The name of the drop in reports."""
        return f"{self.reason}: rows are dropped"


@dataclass(frozen=True)
class Table:
    """A computed table: a pure function of the tables that its query names.

    The project fills in name, layer, doc and module from the module's path and docstring, and method from refresh.lock;
    method is None if it has not been derived from the current query.

    Args:
        keys: The grain, one row per combination.
        query: Spark SQL with inputs as ``{silver_customers}``; a literal brace is doubled.
        values: Lists of strings by upper-case name, which the query uses like ``IN {ORDER_STATUSES}``.
        expect: Expectations beyond the keys, which are always unique.
        nullable_keys: The keys that may be null; nulls then form a group of their own.
        refresh: ``auto`` takes the cheapest method that is proven right; ``incremental`` takes an incremental method if
            one exists; ``incremental strict`` does the same, but refuses the table if none exists; ``full`` always
            recomputes.
        pruned_by: Columns besides the keys by which readers select few rows; files have statistics of their ranges.
        extra: Whether it is one of the tables that not every lake has.
        may_be_empty: Whether it may lose all its rows; else the check fails if it was emptied since the last release.
        max_row_change: The share by which its row count may change between two releases without a warning.
        chart: How the results page draws it; None to show only its rows.
        drops: For a table of dropped rows, why they are dropped.
        descriptions: The meaning of columns, by column. A column that is passed on unchanged needs no description, as
            it inherits that of its source.
        owner: The contact for questions about the table; by default the owner of the project.
        tags: Words to select tables by, as in ``--select tag:finance``.
    """

    keys: tuple[str, ...]
    query: str
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    expect: tuple[Expectation, ...] = ()
    nullable_keys: tuple[str, ...] = ()
    refresh: str = "auto"
    pruned_by: tuple[str, ...] = ()
    extra: bool = False
    may_be_empty: bool = False
    max_row_change: float = MAX_ROW_CHANGE
    chart: Chart | None = None
    drops: tuple[Drop, ...] = ()
    descriptions: Mapping[str, str] = field(default_factory=dict, hash=False)
    owner: str = ""
    tags: tuple[str, ...] = ()
    method: Method | None = None
    name: str = ""
    layer: str = "silver"
    doc: str = ""
    module: Path | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Replace the names of lists in the query by their values."""
        if self.values:
            object.__setattr__(self, "query", with_lists(self.query, self.values))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The tables that the query reads, in the order of their first use."""
        return tuple(dict.fromkeys(name for _, name, _, _ in Formatter().parse(self.query) if name))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the query without its indentation; a refresh does not build on rows of another query."""
        return sha256(dedent(self.query).strip().encode()).hexdigest()[:16]

    @property
    def refresh_method(self) -> str:
        """The refresh method in words, with its key or column, such as ``upsert on order_id``."""
        match self.method:
            case ByKey(column):
                return f"{RefreshMethod.UPSERT} on {column}"
            case Additive(parts):
                return f"{RefreshMethod.INCREMENTAL_AGGREGATE} of {', '.join(parts)}"
            case Kept(parts):
                keys = " and ".join(dict.fromkeys(part.by.column for part in parts if part.by))
                return (
                    f"{RefreshMethod.INCREMENTAL_AGGREGATE} by {keys}" if keys else RefreshMethod.INCREMENTAL_AGGREGATE
                )
            case Recent(column=column):
                return f"{RefreshMethod.LATEST_ROWS} by {column}"
        return RefreshMethod.FULL_RECOMPUTE

    @property
    def refresh_summary(self) -> str:
        """The refresh method in words, with the reason for a full recompute."""
        reason = self.method.reason if isinstance(self.method, Full) else ""
        return f"{self.refresh_method}: {reason}" if reason else self.refresh_method

    @property
    def is_incremental(self) -> bool:
        """Whether a refresh processes only what changed."""
        return isinstance(self.method, ByKey | Additive | Kept | Recent)

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Every expectation on this table: its grain first, then the declared ones."""
        return (*_grain(self.keys, self.nullable_keys), *self.expect)


@dataclass(frozen=True)
class Feed:
    """A Bronze table: the rows of a source system, kept current by its change feed.

    Args:
        keys: The columns that identify a row; the last change of a key wins, in the order of the lines.
        schema: The declared columns as SQL: ``NOT NULL`` rejects rows without a value, ``COMMENT 'text'`` describes the
            values.
        event_time: Columns with the time of an event: a row of an hour's file is rejected if one is before EARLIEST, or
            later than the end of the hour by more than max_skew.
        max_skew: See event_time.
        subject: The column that identifies the person whom a row is about; empty if rows are not about persons.
        subject_of: The table of another feed whose key is in ``subject``, as order lines have the key of their order: a
            row is about the same person as the row with that key. Empty if ``subject`` identifies the person directly.
        personal: Further columns with personal data.
        erase: The effect of erasing the person on a row: ``delete`` the row, or ``blank`` its ``personal_columns``.
        delivery: How the source delivers the feed, from medallion.toml; the project fills it in. The rest as for Table.
    """

    keys: tuple[str, ...]
    schema: str
    event_time: tuple[str, ...] = ()
    max_skew: timedelta = timedelta(days=1)
    delivery: Delivery = USUAL
    subject: str = ""
    subject_of: str = ""
    personal: tuple[str, ...] = ()
    erase: str = DELETE
    expect: tuple[Expectation, ...] = ()
    pruned_by: tuple[str, ...] = ()
    extra: bool = False
    may_be_empty: bool = False
    max_row_change: float = MAX_ROW_CHANGE
    owner: str = ""
    tags: tuple[str, ...] = ()
    name: str = ""
    layer: str = "bronze"
    doc: str = ""
    module: Path | None = field(default=None, compare=False, repr=False)
    inputs: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The declared columns, in order."""
        return tuple(
            Column(name, str(kind), required, comment) for name, kind, required, comment in parse_columns(self.schema)
        )

    @property
    def descriptions(self) -> Mapping[str, str]:
        """The descriptions of columns, by column."""
        return descriptions_of(self.columns)

    @property
    def personal_columns(self) -> tuple[str, ...]:
        """The columns with personal data, beginning with the one that identifies the person."""
        own = () if self.subject_of or not self.subject else (self.subject,)
        return tuple(dict.fromkeys((*own, *self.personal)))

    @property
    def refresh_method(self) -> str:
        """How changes are applied to the table, in words."""
        return f"merged by {', '.join(self.keys)}"

    @property
    def topic(self) -> str:
        """The name of the feed in the project, such as ``orders`` for bronze_orders."""
        return self.name.removeprefix(f"{self.layer}_")

    def latest_event(self, hour: str) -> datetime:
        """Return the latest event time that a row of a change file of ``hour`` may have."""
        return parse_hour(hour) + ONE_HOUR + self.max_skew

    @property
    def source_name(self) -> str:
        """The name of the feed at the source."""
        return self.delivery.name or self.topic

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Every expectation on this table: grain, required columns, then the declared ones."""
        required = tuple(not_null(c.name) for c in self.columns if c.required and c.name not in self.keys)
        return (*_grain(self.keys, ()), *required, *self.expect)


@dataclass(frozen=True)
class ChangeLog:
    """A Bronze table of every change of a feed as it arrived: the history that the feed's own table does not keep.

    One row per _source_file and _line, with the columns of ORIGIN. The log begins with the rows of the feed's table;
    then the lines of each hour's file are appended. The project fills in name and doc, the registry fills in feed.

    Args:
        of: The table of the feed.
        source_system: The system that the lines come from, stored in each row. The rest as for Feed.
    """

    of: str
    source_system: str
    extra: bool = False
    may_be_empty: bool = False
    max_row_change: float = MAX_ROW_CHANGE
    owner: str = ""
    tags: tuple[str, ...] = ()
    feed: Feed | None = None
    name: str = ""
    layer: str = "bronze"
    doc: str = ""
    module: Path | None = field(default=None, compare=False, repr=False)
    keys: tuple[str, ...] = ("_source_file", "_line")
    inputs: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the feed, of which only the keys are required because of deletions, and ORIGIN."""
        feed = self.fed_by
        return (*(replace(c, required=c.name in feed.keys) for c in feed.columns), *ORIGIN)

    @property
    def descriptions(self) -> Mapping[str, str]:
        """The descriptions of columns, by column."""
        return descriptions_of(self.columns)

    @property
    def refresh_method(self) -> str:
        """How changes are applied to the table, in words."""
        return "appended"

    @property
    def fed_by(self) -> Feed:
        """The feed whose changes the log contains."""
        assert self.feed is not None, f"the registry knows what {self.of} is"
        return self.feed

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Every expectation on this table: its grain, and required columns."""
        required = tuple(not_null(c.name) for c in self.columns if c.required and c.name not in self.keys)
        return (*_grain(self.keys, ()), *required)


Node = Feed | ChangeLog | Table  # of the graph of tables


def _grain(keys: tuple[str, ...], nullable: tuple[str, ...]) -> tuple[Expectation, ...]:
    return (unique(*keys), *(not_null(key) for key in keys if key not in nullable))
