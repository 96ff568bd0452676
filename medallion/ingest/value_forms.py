"""The forms in which the program that wrote a change file writes the values that JSON has no form for."""

from dataclasses import dataclass

from medallion.model.delivery import Delivery


@dataclass(frozen=True)
class Forms:
    """How numbers, texts and objects stand for values that JSON has no form for.

    moments: the unit, one of UNITS or ``days``, in which a number in a TIMESTAMP counts from 1970; None if a number is
    not allowed. dates: whether a number in a DATE counts days from 1970. decimals: one of DECIMALS. scale: digits after
    the point of ``precise`` decimals; None for the declared scale. variable_scale: whether a decimal may be an object
    of scale and value. texts: whether numbers and booleans are written as text, and bytes as hexadecimal digits.
    fields: name and form of each field of an object, if the record states them; other fields have the object's form.
    """

    moments: str | None = None
    dates: bool = False
    decimals: str = "text"
    scale: int | None = None
    variable_scale: bool = False
    texts: bool = False
    fields: tuple[tuple[str, "Forms"], ...] = ()

    @classmethod
    def of(cls, delivery: Delivery) -> "Forms":
        """Return the forms that a project declares for a delivery."""
        return cls(delivery.moments, delivery.moments is not None, delivery.decimals)


PLAIN = Forms()
