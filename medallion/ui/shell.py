"""What every page shares: its frame, its style, tables and plots. Nothing is loaded from elsewhere."""

import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STATUS_COLOURS = {
    "succeeded": "#1a7f4b",
    "warned": "#b97800",
    "failed": "#c62a2f",
    "skipped": "#8b8d98",
    "not checked": "#8b8d98",
}

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 92rem; padding: 1.25rem 1.25rem 3rem; background: #fff; color: #1c2024;
  font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: 0 0 .25rem; } h2 { font-size: 1.05rem; margin: 1.75rem 0 .4rem; }
a { color: #0b61c4; } .soft { color: #60646c; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { color: #60646c; font-weight: 500; text-align: left; white-space: nowrap; }
th, td { border-bottom: 1px solid #e0e1e6; padding: .3rem 1rem .3rem 0; white-space: nowrap; }
td.number, th.number { text-align: right; } .text { min-width: 16rem; white-space: normal; }
form { background: #f7f8fa; border: 1px solid #e0e1e6; border-radius: 6px; margin: .75rem 0; padding: .6rem .9rem; }
label { margin-right: 1rem; } input, select, button { font: inherit; }
svg { height: auto; max-width: 100%; min-width: 46rem; }
.empty { background: #f7f8fa; border: 1px solid #e0e1e6; border-radius: 6px; margin: 1rem 0; padding: 1rem; }
""" + "".join(f".{name.replace(' ', '-')} {{ color: {colour}; }}\n" for name, colour in STATUS_COLOURS.items())


def page(title: str, *parts: str) -> str:
    """A whole page."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def empty(text: str) -> str:
    """What stands where there is nothing to show: what to do about it."""
    return f'<p class="empty">{escape(text)}</p>'


def status(word: str, href: str | None = None) -> str:
    """A status in its colour, as a link where there is something behind it."""
    told = f'<b class="{word.replace(" ", "-")}">{escape(word)}</b>'
    return told if href is None else f'<a href="{escape(href)}">{told}</a>'


def table(names: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of cells that are HTML already; numbers: the positions of columns set to the right."""
    kind = ['class="number"' if position in numbers else "" for position in range(len(names))]
    head = "".join(f"<th {k}>{escape(name)}</th>" for k, name in zip(kind, names, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td {k}>{cell}</td>" for k, cell in zip(kind, row, strict=True)) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def figure(height: float, names: Sequence[str] = (), above: float = 0.15, below: float = 0.55) -> "tuple[Figure, Axes]":
    """An empty plot, as wide as a page; height, and what is left free above and below, in inches.

    names: what is written beside the vertical axis. The space for it is reckoned here: matplotlib's own layouts draw
    everything twice to find out.
    """
    from matplotlib.figure import Figure

    width, beside = 10.5, 0.25 + 0.07 * max(map(len, names), default=6)
    made = Figure(figsize=(width, height))
    axes = made.add_axes((beside / width, below / height, 1 - (beside + 0.15) / width, 1 - (above + below) / height))
    axes.spines[["top", "right"]].set_visible(False)
    return made, axes


def svg(made: "Figure") -> str:
    """The plot as part of a page."""
    from matplotlib import rc_context

    text = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "medallion"}):
        made.savefig(text, format="svg", metadata={"Date": None})
    whole = text.getvalue()
    return f'<div class="wide">{whole[whole.index("<svg") :]}</div>'
