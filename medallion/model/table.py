"""What a table is: a change feed or a log of one in Bronze, a query in every layer above. Values only, no Spark."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from string import Formatter
from textwrap import dedent

from medallion.expect.literals import sql_list
from medallion.expect.vocabulary import Expectation, not_null, unique
from medallion.model.chart import Chart
from medallion.model.column_types import SqlType, parse_columns, parse_type
from medallion.model.delivery import USUAL, Delivery
from medallion.model.methods import Additive, ByKey, Full, Kept, Method, Recent
from medallion.model.refresh_method import RefreshMethod

STRATEGIES = ("full", "incremental")
DELETE, BLANK = "delete", "blank"  # what erasing a person does to a row of a feed
QUARANTINE = "quarantine_"  # begins the name of the table of rows that another table drops
BROKEN = "_broken"  # its column that says which expectations a row fails
BESIDE_A_CHANGE = ("_line", "_deleted")  # its place in the file, and whether it deletes: no columns of a feed
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)  # of event times; the first versions of dimensions begin then
LIST_NAME = r"[A-Z][A-Z0-9_]*"  # of a list of values
_LIST = re.compile(rf"(?<!{{){{({LIST_NAME})}}(?!}})")  # its place in a query
MAX_ROW_CHANGE = 0.5  # the share of its rows by which a table may grow or shrink from one release to the next


@dataclass(frozen=True)
class Column:
    """A declared column: its SQL type, whether a row must have a value in it, and what its values mean."""

    name: str
    type: str
    required: bool
    description: str = field(default="", compare=False)

    @cached_property
    def sql_type(self) -> SqlType:
        """Its type, parsed."""
        return parse_type(self.type)


@dataclass(frozen=True)
class Drop:
    """Why a table drops rows: they fail the expectation ``reason``.

    max_share: the share of its rows, 0 to 1, above which that is a warning; None to compare with its history alone.
    """

    reason: str
    max_share: float | None = None

    @property
    def meaning(self) -> str:
        """What reports call it."""
        return f"{self.reason}: rows are dropped"


@dataclass(frozen=True)
class Table:
    """A computed table: a pure function of the tables its query names.

    The project fills in name, layer, doc and module, from the module's path and docstring, and method, from
    refresh.lock: None where it has not been derived from the query as it is now.

    Args:
        keys: The grain, one row per combination.
        query: Spark SQL with inputs as ``{silver_customers}``; a literal brace is doubled.
        values: Lists of texts that the query names: ``IN {ORDER_STATUSES}``, in capitals.
        expect: Expectations beyond the keys, which are always unique.
        nullable_keys: The keys that may be null and then form a group of their own.
        refresh: ``auto`` has the cheapest method that is proven right; ``incremental`` one that touches what changed,
            wherever there is one; ``incremental strict`` the same, and is refused where there is none; ``full`` none.
        pruned_by: Columns besides the keys by which readers look for few rows: files tell their ranges.
        extra: Whether it is one of the tables that not every lake has.
        may_be_empty: Whether it may lose all its rows; else a check that finds it emptied since the last release fails.
        max_row_change: The share by which its row count may change from one release to the next without a warning.
        chart: How the page of results draws it; None for its rows alone.
        drops: Of a table of dropped rows, why they are.
        descriptions: What columns mean, by column. A column that is passed on unchanged is described where it comes
            from, and needs none.
        owner: Whom readers ask about the table; the project's owner if not given.
        tags: Words to choose tables by: ``--select tag:finance``.
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
        """Put the lists that the query names into it."""
        if self.values:
            object.__setattr__(self, "query", _LIST.sub(self._literals, self.query))

    def _literals(self, named: re.Match[str]) -> str:
        return sql_list(self.values[named[1]]) if named[1] in self.values else named[0]

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The tables the query reads, in the order it first names them."""
        return tuple(dict.fromkeys(name for _, name, _, _ in Formatter().parse(self.query) if name))

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the query, but for its indentation: what another query computed is not built upon."""
        return sha256(dedent(self.query).strip().encode()).hexdigest()[:16]

    @property
    def refresh_method(self) -> str:
        """Its refresh method, in words, and what that goes by."""
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
        """Its refresh method, in words, and of a full recompute why."""
        reason = self.method.reason if isinstance(self.method, Full) else ""
        return f"{self.refresh_method}: {reason}" if reason else self.refresh_method

    @property
    def is_incremental(self) -> bool:
        """Whether a refresh touches what changed alone."""
        return isinstance(self.method, ByKey | Additive | Kept | Recent)

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Every expectation on this table: its grain first, then what it declares."""
        return (*_grain(self.keys, self.nullable_keys), *self.expect)


@dataclass(frozen=True)
class Feed:
    """A Bronze table: the rows of a source system, kept current by its change feed.

    Args:
        keys: What identifies a row; the last change of a key wins, in the order of the lines.
        schema: The declared columns as SQL: ``NOT NULL`` where a row without a value is rejected, ``COMMENT 'text'`` to
            say what the values mean.
        event_time: Columns that say when something happened: a row of an hour's file is rejected where one is before
            EARLIEST, or after the end of the hour by more than max_skew.
        max_skew: See event_time.
        subject: The column that names the person whom a row is about; empty where rows are about nobody.
        subject_of: The feed's table whose key ``subject`` is, as lines have the key of their order: a row is about the
            person whom that row is about. Empty where ``subject`` names the person itself.
        personal: Further columns that tell of the person.
        erase: What erasing the person does to a row: ``delete`` it, or ``blank`` the columns ``personal_columns``.
        delivery: How the source delivers it, from medallion.toml; the project fills it in. The rest as for Table.
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
        """What columns mean, by column."""
        return _descriptions(self.columns)

    @property
    def personal_columns(self) -> tuple[str, ...]:
        """The columns that tell of a person, the one that names them first."""
        own = () if self.subject_of or not self.subject else (self.subject,)
        return tuple(dict.fromkeys((*own, *self.personal)))

    @property
    def refresh_method(self) -> str:
        """How changes get into it, in words."""
        return f"merged by {', '.join(self.keys)}"

    @property
    def topic(self) -> str:
        """The feed's own name: that of bronze_orders is ``orders``."""
        return self.name.removeprefix(f"{self.layer}_")

    @property
    def source_name(self) -> str:
        """The feed's name at the source."""
        return self.delivery.name or self.topic

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Every expectation on this table: grain, required columns, then what it declares."""
        required = tuple(not_null(c.name) for c in self.columns if c.required and c.name not in self.keys)
        return (*_grain(self.keys, ()), *required, *self.expect)


# What a log tells of each change beside its row. A row that was there when the log began has no hour.
ORIGIN = (
    Column("_deleted", "BOOLEAN", True, "Whether the change deletes the row"),
    Column("_hour", "TIMESTAMP", False, "The hour of the change file; null for rows of before the log began"),
    Column("_line", "BIGINT", True, "The line of the change file, from 1"),
    Column("_source_file", "STRING", True, "The file that brought the change"),
    Column("_source_system", "STRING", True, "The system that sent the change"),
    Column("_loaded_at", "TIMESTAMP", True, "When the change was written to the log"),
)


@dataclass(frozen=True)
class ChangeLog:
    """A Bronze table of every change of a feed, as it arrived: the history that the feed's own table forgets.

    One row per _source_file and _line, with the columns of ORIGIN. It begins with the rows of the feed's table; from
    then on the lines of each hour's file are appended. The registry fills in feed, name and doc.

    Args:
        of: The feed's table.
        source_system: Where the lines come from, in each row. The rest as for Feed.
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
        """Those of the feed, of which a line that deletes may have the keys alone, and ORIGIN."""
        feed = self.fed_by
        return (*(replace(c, required=c.name in feed.keys) for c in feed.columns), *ORIGIN)

    @property
    def descriptions(self) -> Mapping[str, str]:
        """What columns mean, by column."""
        return _descriptions(self.columns)

    @property
    def refresh_method(self) -> str:
        """How changes get into it, in words."""
        return "appended"

    @property
    def fed_by(self) -> Feed:
        """The declaration of the table whose changes these are."""
        assert self.feed is not None, f"the registry knows what {self.of} is"
        return self.feed

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Every expectation on this table: its grain, and values where there is always one."""
        required = tuple(not_null(c.name) for c in self.columns if c.required and c.name not in self.keys)
        return (*_grain(self.keys, ()), *required)


def _descriptions(columns: tuple[Column, ...]) -> dict[str, str]:
    return {column.name: column.description for column in columns if column.description}


def _grain(keys: tuple[str, ...], nullable: tuple[str, ...]) -> tuple[Expectation, ...]:
    return (unique(*keys), *(not_null(key) for key in keys if key not in nullable))
