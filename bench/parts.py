"""What the report of a benchmark is made of: values that a template draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from markupsafe import Markup

from medallion.ui.plots import to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Heading:
    """What begins a section."""

    text: str
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; look: a class of the stylesheet."""

    text: str
    look: str = ""
    kind: ClassVar[str] = "paragraph"


@dataclass(frozen=True)
class Drawing:
    """A plot, and the words for those who cannot see it."""

    svg: Markup
    alt: str
    kind: ClassVar[str] = "drawing"


@dataclass(frozen=True)
class Price:
    """The field for the price of a core-hour."""

    kind: ClassVar[str] = "price"


@dataclass(frozen=True)
class Cells:
    """A table; core_hours: of each row, which are priced in a last column. folded: shown when it is asked for."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    core_hours: Sequence[str] = ()
    folded: bool = False
    kind: ClassVar[str] = "cells"


Part = Heading | Paragraph | Drawing | Price | Cells


def draw(figure: "Figure", alt: str) -> Drawing:
    """The plot as a part of the report."""
    return Drawing(to_svg(figure, alt), alt)
