"""The errors a person is meant to read: one line, naming what failed, where, and what to do."""

from errno import EACCES, EPERM, EROFS

NOT_ALLOWED = frozenset({EACCES, EPERM, EROFS})  # numbers of the OSErrors of an account that may not read or write


class MedallionError(Exception):
    """Work failed. The message names the table, hour and file. Exit code 1.

    Args:
        message: What happened, to what, and what to do.
        quote: Data of the source, quoted: it follows the message where people read it, and stays out of what is sent
            elsewhere.
    """

    exit_code = 1

    def __init__(self, message: str = "", quote: str = "") -> None:
        super().__init__(f"{message}; {quote}" if quote else message)
        self.without_data = message


class UsageError(MedallionError):
    """The request itself was wrong. The message says what is allowed. Exit code 2."""

    exit_code = 2


class HourNotAvailable(MedallionError):
    """The source does not have the hour (yet): nothing to do now, perhaps later."""


class HourOutOfOrder(MedallionError):
    """The hour cannot be applied in its place now: earlier ones are missing, or a later one was applied before it."""


class CheckFailed(MedallionError):
    """A critical expectation does not hold: the next layer must not start."""


def one_line(error: BaseException | str, width: int = 300) -> str:
    """The first line of ``error`` that says something, at most ``width`` characters."""
    lines = (line.strip() for line in str(error).splitlines())
    text = next((line for line in lines if line), type(error).__name__)
    return text if len(text) <= width else text[: width - 1] + "…"


class DamagedFile(MedallionError):
    """A file of the lake was read, and holds something else than what was written."""
