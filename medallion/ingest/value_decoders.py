"""Decode JSON values for declared columns: no value is silently turned into another.

A FLOAT or DOUBLE takes a JSON number as the nearest value that it can hold. JSON has neither NaN nor infinities, so
both are rejected, as is a number that is too large or too small to differ from zero. BINARY is text in Base64. What a
number in a TIMESTAMP or DATE means, and a text in a DECIMAL, depends on the program that wrote it: on its Forms.
"""

import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from math import isfinite
from typing import Any

from medallion.ingest.value_forms import PLAIN, Forms
from medallion.model.column_types import ArrayType, DecimalType, MapType, Scalar, SqlType, StructType

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_EXACT = Context(prec=80)  # more digits than any DECIMAL has: a number that is rounded here does not fit
_TIMESTAMP = re.compile(  # up to microseconds, like Delta's: a finer digit would be lost
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6}0{0,3})?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_OTHER_TIMESTAMP = re.compile(  # less common forms
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6}0{0,3})?)"
    r" ?(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)"
)
_EPOCH, _EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1).toordinal()
_MICROSECONDS_IN = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1, "days": 86_400_000_000}
MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"  # for Spark, whose default format drops digits
_MAX_DIGITS = 30  # most digits of a whole number that is written as text
Decoder = Callable[[Any], Any]
NoteUnknown = Callable[[str], None]  # receives the path of a field that no STRUCT declares


def value_decoder(kind: SqlType, name: str, note_unknown: NoteUnknown, forms: Forms = PLAIN) -> Decoder:
    """Return a function that decodes a JSON value for a column.

    The function raises ValueError, TypeError or ArithmeticError if the value does not fit.

    Args:
        kind: The type of the column.
        name: The column, or the path of a field in it.
        note_unknown: Called with each undeclared field of an object; the field is not loaded.
        forms: How values are written.
    """
    match kind:
        case Scalar("TIMESTAMP") if forms.moments is not None:
            return _numeric_moment(forms.moments)
        case Scalar("DATE") if forms.dates:
            return _numeric_date
        case Scalar(scalar) if forms.texts and scalar in _FROM_TEXT:
            return _from_text(_FROM_TEXT[scalar], _SCALARS[scalar])
        case Scalar(scalar):
            return _SCALARS[scalar]
        case DecimalType(precision, scale):
            fit = _decimal(precision, scale)
            if forms.decimals == "precise" or forms.variable_scale:
                is_precise, own = forms.decimals == "precise", scale if forms.scale is None else forms.scale
                return _unscaled(fit, own if is_precise else None, variable=forms.variable_scale)
            return fit
        case ArrayType(element):
            return _array(value_decoder(element, name, note_unknown, forms))
        case MapType(value):
            return _map(value_decoder(value, name, note_unknown, forms))
        case StructType(fields):
            known, other = dict(forms.fields), replace(forms, fields=())
            decoders = {f: value_decoder(t, f"{name}.{f}", note_unknown, known.get(f, other)) for f, t in fields}
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
        # Sorted by key: two maps are the same whatever the order of their entries.
        return [(_string(key), None if v is None else decode_value(v)) for key, v in sorted(value.items())]

    return decode


def _struct(decoders: dict[str, Decoder], name: str, note_unknown: NoteUnknown) -> Decoder:
    def decode(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise TypeError
        if not value.keys() <= decoders.keys():
            value = by_declared_name(value)
        return {f: None if value.get(f) is None else convert(value[f]) for f, convert in decoders.items()}

    def by_declared_name(value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Find the declared fields, ignoring letter case, as columns are found."""
        fields: dict[str, Any] = {}
        for given, content in value.items():
            if (field := given.casefold()) not in decoders:
                note_unknown(f"{name}.{given}")
            elif field in fields:
                raise ValueError
            else:
                fields[field] = content
        return fields

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
        return number + 0.0  # turns -0.0 into 0.0

    return decode


def _decimal(precision: int, scale: int) -> Decoder:
    step, whole = Decimal(1).scaleb(-scale), precision - scale

    def decode(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise TypeError
        if isinstance(value, str) and not _NUMBER.fullmatch(value):  # Decimal takes more: underscores, other digits
            raise ValueError
        number = Decimal(value)
        # The place of the first digit is compared, because comparing the number overflows for huge exponents.
        if not number.is_finite() or (number and number.adjusted() >= whole):
            raise ValueError
        fitted = number.quantize(step, context=_EXACT)
        if fitted != number:  # a digit would be lost
            raise ValueError
        return fitted

    return decode


def _unscaled(fit: Decoder, scale: int | None, *, variable: bool) -> Decoder:
    """Build the decoder of decimals written as the bytes of a whole number in Base64.

    scale: digits after the point; None if a text is the decimal itself.
    """

    def decode(value: Any) -> Any:
        own = scale
        if variable and isinstance(value, dict):
            if value.keys() != {"scale", "value"} or type(value["scale"]) is not int or abs(value["scale"]) > 1000:
                raise ValueError
            own, value = value["scale"], value["value"]
        if own is not None and isinstance(value, str):
            if not value:
                raise ValueError
            whole = int.from_bytes(_binary(value), "big", signed=True)
            value = Decimal(whole).scaleb(-own, context=_EXACT)
            if value.scaleb(own, context=_EXACT) != whole:  # more digits than any DECIMAL has
                raise ValueError
        return fit(value)

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
    if b64encode(content).decode() != value:  # not canonical, such as with spare bits set
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


def _numeric_date(value: Any) -> date:
    return date.fromordinal(_EPOCH_DAY + value) if type(value) is int else _date(value)


def _timestamp(value: Any) -> datetime:
    if not _TIMESTAMP.fullmatch(value):
        match = _OTHER_TIMESTAMP.fullmatch(value)
        if match is None:
            raise ValueError
        value = match[1] + match[2].replace("UTC", "Z")
    moment = datetime.fromisoformat(value)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _numeric_moment(unit: str) -> Decoder:
    """Build the decoder of timestamps that are numbers of ``unit`` since 1970, or texts."""
    microseconds = _MICROSECONDS_IN.get(unit)

    def decode(value: Any) -> datetime:
        if type(value) is not int:
            return _timestamp(value)
        if microseconds is not None:
            return _EPOCH + timedelta(microseconds=value * microseconds)
        whole, rest = divmod(value, 1_000)
        if rest:  # nanoseconds would be lost
            raise ValueError
        return _EPOCH + timedelta(microseconds=whole)

    return decode


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

_TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def _from_text(parse: Callable[[str], Any], decode: Decoder) -> Decoder:
    """Build the decoder of values that may be written as text; ``decode`` decodes what ``parse`` returns."""
    return lambda value: decode(parse(value) if isinstance(value, str) else value)


def _whole_number(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
        raise ValueError
    return int(text)


def _number(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError
    return Decimal(text)


_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), _whole_number),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _number),
    "BOOLEAN": lambda text: _TRUTH.get(text.lower()),
    "BINARY": lambda text: b64encode(bytes.fromhex(text)).decode(),
}
