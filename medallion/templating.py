"""Pages as Jinja templates: one base, one palette, every value escaped. What tables and links of a page are made of."""

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

TEMPLATES = Path(__file__).parent / "ui" / "templates"


@dataclass(frozen=True)
class Site:
    """What every page shows of where it is. project, projects: the one that is shown, and all that can be.

    refresh_dag, replay_dag: what its DAGs are called in Airflow.
    """

    project: str = ""
    projects: tuple[str, ...] = ()
    refresh_dag: str = "hourly_refresh"
    replay_dag: str = "replay_quarantine"


site: ContextVar[Site] = ContextVar("site", default=Site())  # noqa: B039 (it is frozen)

# Every page that the others lead to: where it is, and what it is called.
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
    """A cell that leads somewhere."""

    text: str
    href: str
    kind: ClassVar[str] = "link"


@dataclass(frozen=True)
class Status:
    """A cell that shows a status in its colour, as a link where there is something behind it."""

    word: str
    href: str | None = None
    kind: ClassVar[str] = "status"


@dataclass(frozen=True)
class RunLink:
    """A cell that names a run, with its timeline behind it."""

    run_id: str
    kind: ClassVar[str] = "run"


@dataclass(frozen=True)
class TaskLink:
    """A cell that leads to a task of a run in Airflow."""

    text: str
    run_id: str
    task_id: str
    kind: ClassVar[str] = "task"


@dataclass(frozen=True)
class Long:
    """A cell of a text that may be wrapped."""

    text: str
    kind: ClassVar[str] = "long"


@dataclass(frozen=True)
class Bars:
    """A cell of small bars: height in pixels, status and title of each. label: what stands beside them."""

    bars: Sequence[tuple[float, str, str]]
    alt: str
    label: str = ""
    kind: ClassVar[str] = "bars"


@dataclass(frozen=True)
class Grid:
    """A table of a page: its caption, the names of its columns, and its rows.

    A cell is a plain value, which is escaped, or one of the cells above. numbers: positions of columns set to the
    right. csv: where the whole table can be downloaded. searchable: whether it has a field that filters its rows.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numbers: Collection[int] = field(default_factory=frozenset)
    csv: str | None = None
    searchable: bool = False


@dataclass(frozen=True)
class Plot:
    """A plot of a page: SVG, the text for those who cannot see it, and the table of what it shows."""

    svg: Markup
    alt: str
    data: Grid


def render(template: str, **values: Any) -> str:
    """The page that ``template`` makes of ``values``. Raises jinja2.UndefinedError for a value that is missing."""
    return _environment().get_template(template).render(**values)


def render_notice(title: str, text: str, page: str = "", up: str = "", run: str = "") -> str:
    """A page of one paragraph: what is wrong, or what is to be done so that something can be shown.

    up: the way from where it is shown to the folder of the pages. run: the address of a run in Airflow to look at.
    """
    return render("notice.html", title=title, text=text, page=page, up=up, run=run)


@cache
def script_source() -> str:
    """The one script of our pages as a source that a Content-Security-Policy allows."""
    text = _environment().get_template("pages.js").render()
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def in_words(value: Any) -> str:
    """A plain value as a reader expects it: digits in groups, a moment to the second, nothing for null."""
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
    """A name that may be broken after an underscore, so that a column is as wide as its values."""
    return Markup(str(escape(name)).replace("_", "_<wbr>"))  # noqa: S704 (escaped)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"in_words": in_words, "breakable": breakable}
    environment.tests["digits"] = str.isdigit
    environment.globals |= {"navigation": NAVIGATION, "up": "", "site": site.get}
    return environment
