"""Errors for people to read: one line that names what failed, where, and what to do."""

from errno import EACCES, EPERM, EROFS
from typing import Self

NOT_ALLOWED = frozenset({EACCES, EPERM, EROFS})  # errno values for missing permission to read or write


class MedallionError(Exception):
    """Work failed. The message names the table, hour and file. Exit code 1.

    Args:
        message: What happened, to what, and what to do.
        without_data: The message for readers who may not see data, such as recipients of alerts; None if ``message``
            itself quotes no data.
    """

    exit_code = 1

    def __init__(self, message: str = "", without_data: str | None = None) -> None:
        super().__init__(message)
        self.without_data = message if without_data is None else without_data

    @classmethod
    def quoting(cls, message: str, quote: str) -> Self:
        """Return an error with ``message`` followed by ``quote``, which contains values of the source or of a table."""
        return cls(message + quote, message)


class UsageError(MedallionError):
    """The request itself was wrong. The message says what is allowed. Exit code 2."""

    exit_code = 2


class BadDeclaration(MedallionError):
    """A declaration of a project is wrong. The message names the module, and what to write. Exit code 2."""

    exit_code = 2


class HourNotAvailable(MedallionError):
    """The source does not have the hour, or not yet: there is nothing to do now, but there may be later."""


class HourBeforeFirst(HourNotAvailable):
    """The hour is before the first one of the lake, and was never part of it. Exit code 2."""

    exit_code = 2


class HourOutOfOrder(MedallionError):
    """The hour cannot be applied now: earlier hours are missing, or a later hour was already applied."""


class CheckFailed(MedallionError):
    """A critical expectation failed: the next layer must not start."""


def without_data(error: object) -> str:
    """Return an error message without data; for errors of other libraries, which may quote rows, only the type."""
    if isinstance(error, str):
        return error
    return str(getattr(error, "without_data", None) or f"{type(error).__name__}: its message is in the log")


def one_line(error: BaseException | str, width: int = 300) -> str:
    """Return the first non-blank line of ``error``, cut to at most ``width`` characters."""
    lines = (line.strip() for line in str(error).splitlines())
    text = next((line for line in lines if line), type(error).__name__)
    return text if len(text) <= width else text[: width - 1] + "…"


class DamagedFile(MedallionError):
    """A file of the lake does not contain what was written to it."""
