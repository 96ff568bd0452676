"""What a command shows while it works: a bar as soon as there is something to count."""

import io

import pytest

from medallion.cli.console import progress_bar


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        return True


def test_no_count_is_shown_before_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    with progress_bar():
        pass
    assert "working" in terminal.getvalue() and "0/" not in terminal.getvalue()
    with progress_bar() as advance:
        advance("hour", 1, 2)
    assert "hour" in terminal.getvalue() and "1/2" in terminal.getvalue()
