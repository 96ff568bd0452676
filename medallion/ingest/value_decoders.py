"""Which values of JSON fit a declared column: none is silently turned into another."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

from medallion.model.table import Column

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_EXACT = Context(prec=80)  # more digits than any DECIMAL has: what is rounded here is no such number
_TIMESTAMP = re.compile(  # in microseconds, as Delta has them: a finer digit would be lost
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6}0{0,3})?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
Decoder = Callable[[Any], Any]


def value_decoder(column: Column) -> Decoder:
    """Return the function that takes a value of JSON for ``column``; it raises where the value does not fit."""
    if column.type.startswith("DECIMAL"):
        return _decimal(*precision_of(column.type))
    return {
        "BIGINT": _integer(64),
        "INT": _integer(32),
        "STRING": _string,
        "BOOLEAN": _boolean,
        "DATE": _date,
        "TIMESTAMP": _timestamp,
    }[column.type]


def precision_of(sql_type: str) -> tuple[int, int]:
    """Return the digits of a DECIMAL, and how many of them are after the point."""
    precision, scale = re.findall(r"\d+", sql_type)
    return int(precision), int(scale)


def _integer(bits: int) -> Decoder:
    limit = 1 << (bits - 1)

    def decode(value: Any) -> int:
        if type(value) is not int or not -limit <= value < limit:
            raise ValueError
        return value

    return decode


def _decimal(precision: int, scale: int) -> Decoder:
    step, whole = Decimal(1).scaleb(-scale), precision - scale

    def decode(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise TypeError
        if isinstance(value, str) and not _NUMBER.fullmatch(value):  # Decimal takes more: underscores, other digits
            raise ValueError
        number = Decimal(value)
        # The place of the first digit is asked for, as even comparing with a limit overflows for huge exponents.
        if not number.is_finite() or (number and number.adjusted() >= whole):
            raise ValueError
        fitted = number.quantize(step, context=_EXACT)
        if fitted != number:  # a digit would be lost
            raise ValueError
        return fitted

    return decode


def _string(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    value.encode()  # a lone surrogate is no text
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _date(value: Any) -> date:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        raise ValueError
    return date.fromisoformat(value)


def _timestamp(value: Any) -> datetime:
    if not _TIMESTAMP.fullmatch(value):
        raise ValueError
    moment = datetime.fromisoformat(value)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
