"""Which values of JSON fit a declared column: none is silently turned into another.

A FLOAT or DOUBLE takes a number of JSON, as the nearest one that it can hold: JSON knows neither NaN nor infinities, so
both are rejected, as is a number too large for it or too small to differ from zero. BINARY is text in Base64.
"""

import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from math import isfinite
from typing import Any

from medallion.model.column_types import ArrayType, DecimalType, MapType, Scalar, SqlType, StructType

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_EXACT = Context(prec=80)  # more digits than any DECIMAL has: what is rounded here is no such number
_TIMESTAMP = re.compile(  # in microseconds, as Delta has them: a finer digit would be lost
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6}0{0,3})?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"  # how Spark writes a moment whole: its own format drops digits
Decoder = Callable[[Any], Any]
NoteUnknown = Callable[[str], None]  # is told the path of a field that no STRUCT declares


def value_decoder(kind: SqlType, name: str, note_unknown: NoteUnknown) -> Decoder:
    """Return the function that takes a value of JSON for a column; it raises where the value does not fit.

    Args:
        kind: The type of the column.
        name: The column, or the path of a field in it.
        note_unknown: Told of each field of an object that is not declared; it is left out.
    """
    match kind:
        case Scalar(scalar):
            return _SCALARS[scalar]
        case DecimalType(precision, scale):
            return _decimal(precision, scale)
        case ArrayType(element):
            return _array(value_decoder(element, name, note_unknown))
        case MapType(value):
            return _map(value_decoder(value, name, note_unknown))
        case StructType(fields):
            decoders = {f: value_decoder(type_, f"{name}.{f}", note_unknown) for f, type_ in fields}
            return _struct(decoders, name, note_unknown)


def _array(decode_element: Decoder) -> Decoder:
    def decode(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise TypeError
        return [None if element is None else decode_element(element) for element in value]

    return decode


def _map(decode_value: Decoder) -> Decoder:
    def decode(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise TypeError
        # In the order of their keys, as two maps are the same whatever the order they were written in.
        return [(_string(key), None if v is None else decode_value(v)) for key, v in sorted(value.items())]

    return decode


def _struct(decoders: dict[str, Decoder], name: str, note_unknown: NoteUnknown) -> Decoder:
    def decode(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise TypeError
        for field in value.keys() - decoders.keys():
            note_unknown(f"{name}.{field}")
        return {f: None if value.get(f) is None else convert(value[f]) for f, convert in decoders.items()}

    return decode


def _integer(bits: int) -> Decoder:
    limit = 1 << (bits - 1)

    def decode(value: Any) -> int:
        if type(value) is not int or not -limit <= value < limit:
            raise ValueError
        return value

    return decode


def _floating(format_: str) -> Decoder:
    def decode(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise TypeError
        number: float = struct.unpack(format_, struct.pack(format_, float(value)))[0]
        if not isfinite(number) or (value and not number):
            raise ValueError
        return number + 0.0  # of the two zeros there is one

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


def _binary(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError
    content = b64decode(value, validate=True)
    if b64encode(content).decode() != value:  # it decodes what it would never write, such as spare bits
        raise ValueError
    return content


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


_SCALARS: dict[str, Decoder] = {
    "BOOLEAN": _boolean,
    "TINYINT": _integer(8),
    "SMALLINT": _integer(16),
    "INT": _integer(32),
    "BIGINT": _integer(64),
    "FLOAT": _floating("<f"),
    "DOUBLE": _floating("<d"),
    "STRING": _string,
    "BINARY": _binary,
    "DATE": _date,
    "TIMESTAMP": _timestamp,
}
