"""Text from outside in what Airflow renders as Markdown: shown as it is, never a link, a picture or a heading."""

import re

_ACTIVE = re.compile(r"[\\`*\[\]<~|]|(?<![^\W_])_|_(?![^\W_])|&(?=#|\w)|^(?=[#>+=-])|^\d+(?=[.)])")
# A bare address becomes a link after escapes are resolved: only a character within it prevents that.
_ADDRESS = re.compile(r"(?<=https:)(?=//)|(?<=http:)(?=//)|(?<=www)(?=\.)|(?<=@)(?=[\w-])", re.IGNORECASE)
_INVISIBLE = "\u200b"


def escape_markdown(text: str) -> str:
    """Return ``text`` as one line of Markdown that reads like it."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(line.split())
    return _ADDRESS.sub(_INVISIBLE, _ACTIVE.sub(_escaped, line))


def _escaped(match: re.Match[str]) -> str:
    number = match[0] if match[0].isdigit() else ""  # the point after it begins a list
    return f"{number}\\{match[0].removeprefix(number)}"
