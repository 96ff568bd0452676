"""The errors a person is meant to read: one line, naming what failed, where, and what to do."""


class MedallionError(Exception):
    """Work failed. The message names the table, hour and file. Exit code 1."""

    exit_code = 1


class UsageError(MedallionError):
    """The request itself was wrong. The message says what is allowed. Exit code 2."""

    exit_code = 2


class HourNotAvailable(MedallionError):
    """The source does not have the hour (yet): nothing to do now, perhaps later."""


class CheckFailed(MedallionError):
    """A critical expectation does not hold: the next layer must not start."""
