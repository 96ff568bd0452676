"""The errors a person is meant to read: one line, naming what failed, where, and what to do."""

from errno import EACCES, EPERM, EROFS
from typing import Self

NOT_ALLOWED = frozenset({EACCES, EPERM, EROFS})  # numbers of the OSErrors of an account that may not read or write


class MedallionError(Exception):
    """Work failed. The message names the table, hour and file. Exit code 1.

    Args:
        message: What happened, to what, and what to do.
        without_data: The message for those who may not see data, such as the receivers of alerts; None where it quotes
            none.
    """

    exit_code = 1

    def __init__(self, message: str = "", without_data: str | None = None) -> None:
        super().__init__(message)
        self.without_data = message if without_data is None else without_data

    @classmethod
    def quoting(cls, message: str, quote: str) -> Self:
        """Return the error with ``message`` and after it ``quote``, which holds values of the source or of a table."""
        return cls(message + quote, message)


class UsageError(MedallionError):
    """The request itself was wrong. The message says what is allowed. Exit code 2."""

    exit_code = 2


class BadDeclaration(MedallionError):
    """What a project declares is wrong. The message names the module, and what to write. Exit code 2."""

    exit_code = 2


class HourNotAvailable(MedallionError):
    """The source does not have the hour (yet): nothing to do now, perhaps later."""


class HourOutOfOrder(MedallionError):
    """The hour cannot be applied in its place now: earlier ones are missing, or a later one was applied before it."""


class CheckFailed(MedallionError):
    """A critical expectation does not hold: the next layer must not start."""


def without_data(error: object) -> str:
    """Return what may be told outside of an error: of one that is not ours, and may quote rows, its type alone."""
    if isinstance(error, str):
        return error
    return str(getattr(error, "without_data", None) or f"{type(error).__name__}: its message is in the log")


def one_line(error: BaseException | str, width: int = 300) -> str:
    """The first line of ``error`` that says something, at most ``width`` characters."""
    lines = (line.strip() for line in str(error).splitlines())
    text = next((line for line in lines if line), type(error).__name__)
    return text if len(text) <= width else text[: width - 1] + "…"


class DamagedFile(MedallionError):
    """A file of the lake was read, and holds something else than what was written."""
