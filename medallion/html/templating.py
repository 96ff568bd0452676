"""Jinja templates for pages (one base, one palette, every value escaped) and the values that tables and links show."""

from base64 import b64encode
from collections.abc import Collection, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Site:
    """The context that every page shows. project, projects: the project shown, and all that can be chosen.

    refresh_dag, replay_dag: the names of its DAGs in Airflow.
    """

    project: str = ""
    projects: tuple[str, ...] = ()
    refresh_dag: str = "hourly_refresh"
    replay_dag: str = "replay_quarantine"


site: ContextVar[Site] = ContextVar("site", default=Site())  # noqa: B039 (it is frozen)

# Every page in the navigation: its path and its title.
NAVIGATION = (
    ("results", "Results"),
    ("status", "Lakehouse"),
    ("runs", "Runs"),
    ("reports", "Validation reports"),
    ("expectations", "Expectations"),
    ("timings", "Timings"),
    ("releases", "Releases"),
    ("quarantine", "Quarantine"),
    ("benchmark", "Benchmark"),
)


@dataclass(frozen=True)
class Link:
    """A cell that is a link."""

    text: str
    href: str
    kind: ClassVar[str] = "link"


@dataclass(frozen=True)
class Status:
    """A cell that shows a status in its colour, as a link if ``href`` is given."""

    word: str
    href: str | None = None
    kind: ClassVar[str] = "status"


@dataclass(frozen=True)
class RunLink:
    """A cell that names a run and links to its timeline."""

    run_id: str
    kind: ClassVar[str] = "run"


@dataclass(frozen=True)
class TaskLink:
    """A cell that links to a task of a run in Airflow."""

    text: str
    run_id: str
    task_id: str
    kind: ClassVar[str] = "task"


@dataclass(frozen=True)
class Long:
    """A cell whose text may wrap."""

    text: str
    kind: ClassVar[str] = "long"


@dataclass(frozen=True)
class Bars:
    """A cell of small bars, each with height in pixels, status and title. label: the text beside them."""

    bars: Sequence[tuple[float, str, str]]
    alt: str
    label: str = ""
    kind: ClassVar[str] = "bars"


@dataclass(frozen=True)
class Grid:
    """A table of a page: its caption, the names of its columns, and its rows.

    A cell is a plain value, which is escaped, or one of the cells above. numbers: positions of right-aligned columns.
    csv: the link to download the whole table. searchable: whether it has a field that filters its rows.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numbers: Collection[int] = field(default_factory=frozenset)
    csv: str | None = None
    searchable: bool = False


@dataclass(frozen=True)
class Plot:
    """A plot of a page: the SVG, its alternative text, and its data as a table."""

    svg: Markup
    alt: str
    data: Grid


def render(template: str, **values: Any) -> str:
    """Render ``template`` with ``values``. Raises jinja2.UndefinedError for a missing value."""
    return _environment().get_template(template).render(**values)


def render_notice(title: str, text: str, page: str = "", up: str = "", run: str = "") -> str:
    """Render a page of one paragraph: what is wrong, or what to do before there is something to show.

    up: the relative path from the page to the folder of pages. run: the URL of a run in Airflow to look at.
    """
    return render("notice.html", title=title, text=text, page=page, up=up, run=run)


@cache
def script_source() -> str:
    """Return the hash of the pages' only script, as a source expression for a Content-Security-Policy."""
    text = _environment().get_template("pages.js").render()
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def in_words(value: Any) -> str:
    """Format a plain value for a reader: digits in groups, timestamps to the second, an empty string for null."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        midnight = (value.hour, value.minute, value.second) == (0, 0, 0)
        return f"{value:%Y-%m-%d}" if midnight else f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float | Decimal):
        return f"{value:,.2f}" if abs(float(value)) >= 1 or not value else f"{value:.3g}"
    return str(value)


def breakable(name: str) -> Markup:
    """Return a name that may wrap after an underscore, so that a column need not be wider than its values."""
    return Markup(str(escape(name)).replace("_", "_<wbr>"))  # noqa: S704 (escaped)


def highlight_sql(query: str) -> Markup:
    """Return a query with its keywords, texts, numbers and comments in elements of the classes that Pygments gives."""
    from pygments import highlight
    from pygments.formatters.html import HtmlFormatter
    from pygments.lexers.sql import SqlLexer

    return Markup(highlight(query, SqlLexer(), HtmlFormatter(nowrap=True)).strip())  # noqa: S704 (Pygments escapes)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"in_words": in_words, "breakable": breakable, "sql": highlight_sql}
    environment.tests["digits"] = str.isdigit
    environment.globals |= {"navigation": NAVIGATION, "up": "", "site": site.get}
    return environment
