"""Counts with their noun."""


def counted(number: int, thing: str) -> str:
    """Return a number with its noun: "1 line", "2,000 lines"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
