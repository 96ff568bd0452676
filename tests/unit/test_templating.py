"""What all pages share: a palette that can be read, values that are escaped, one script that a policy allows."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from markupsafe import Markup

from medallion.html.templating import (
    TEMPLATES,
    Grid,
    Link,
    breakable,
    highlight_sql,
    in_words,
    render,
    render_notice,
    script_source,
)
from medallion.ui.results import Card

PALETTE = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--(\w+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)", (TEMPLATES / "style.css").read_text()
    )
}
TEXTS = ("ink", "soft", "link", "succeeded", "warned", "failed", "quiet")


def luminance(colour: str) -> float:
    """As WCAG 2 defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_text_can_be_read_on_a_page_and_on_a_panel(text: str, theme: int) -> None:
    for ground in ("page", "panel"):
        assert contrast(PALETTE[text][theme], PALETTE[ground][theme]) >= 4.5, f"{text} on {ground}"


def test_the_one_script_is_the_one_that_the_policy_allows() -> None:
    (script,) = re.findall(r"<script>(.*?)</script>", render_notice("Title", "text"), re.DOTALL)
    assert script_source() == f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def test_sql_in_colours_is_the_escaped_text() -> None:
    query = "SELECT '<b>' AS bold, 1 AS n -- <script>\nFROM {bronze_orders} WHERE a < b & c"
    shown = highlight_sql(query)
    assert '<span class="k">SELECT</span>' in shown and "<span class=\"s1\">'&lt;b&gt;'</span>" in shown
    assert Markup(shown).striptags() == " ".join(query.split())


def test_a_page_escapes_its_values_and_its_cells() -> None:
    page = render_notice("<b>", "<script>alert(1)</script>")
    assert "<b>" not in page and "alert(1)</script>" not in page
    grid = Grid("<i>", ("<u>",), [(Link("<s>", 'x" onclick="y'),)])
    about = {"title": "t", "page": "", "release": Release(), "hour": "h", "others": [("<i>", "<u>")], "spark": (1, 1)}
    page = render("results.html", **about, section=Section(grid))
    assert not re.findall(r"<[ius]>|\" onclick", page)
    card = Card("<i>", "<u>", "<s>", '" onclick="y', "<i>", '" onclick="y', [])
    page = render("results.html", **about, section=None, cards=[card], errors=["<u>"], tables=grid)
    assert not re.findall(r"<[ius]>|\" onclick", page)


def test_a_name_is_broken_after_an_underscore_and_escaped() -> None:
    assert breakable("a_<b>") == "a_<wbr>&lt;b&gt;"


class Release:
    release_id = 1
    published_at = None


class Section:
    name = title = lead = "x"
    error = plot = note = None

    def __init__(self, rows: Grid) -> None:
        self.rows = rows


@pytest.mark.parametrize(
    ("value", "words"), [(None, ""), (1234567, "1,234,567"), (True, "True"), (1234.5, "1,234.50"), (0.01234, "0.0123")]
)
def test_plain_values_are_shown_as_readers_expect_them(value: object, words: str) -> None:
    assert in_words(value) == words
