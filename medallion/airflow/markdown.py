"""Escape text that Airflow renders as Markdown, so that it never becomes a link, an image or a heading."""

import re

_ACTIVE = re.compile(r"[\\`*\[\]<~|]|(?<![^\W_])_|_(?![^\W_])|&(?=#|\w)|^(?=[#>+=-])|^\d+(?=[.)])")
# Markdown links bare addresses after it resolves escapes: only an invisible character inside prevents that.
_ADDRESS = re.compile(r"(?<=https:)(?=//)|(?<=http:)(?=//)|(?<=www)(?=\.)|(?<=@)(?=[\w-])", re.IGNORECASE)
_INVISIBLE = "\u200b"


def escape_markdown(text: str) -> str:
    """Return ``text`` as one line of Markdown that renders as the same text."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(line.split())
    return _ADDRESS.sub(_INVISIBLE, _ACTIVE.sub(_escaped, line))


def _escaped(match: re.Match[str]) -> str:
    number = match[0] if match[0].isdigit() else ""  # the period after a number would begin a list
    return f"{number}\\{match[0].removeprefix(number)}"
