"""The Arrow types of declared columns, and their comparison with the types of existing tables."""

from functools import partial
from typing import Any

import pyarrow as pa

from medallion.model.column_types import ArrayType, DecimalType, MapType, Scalar, SqlType, StructType
from medallion.model.columns import Column

_SCALARS = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}
_MAX_WHOLE_IN_DOUBLE = 32  # bits of a whole number that every DOUBLE holds exactly


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of a declared column."""
    return _of(column.sql_type)


def _of(kind: SqlType) -> pa.DataType:
    match kind:
        case Scalar(name):
            return _SCALARS[name]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element):
            return pa.list_(pa.field("element", _of(element)))
        case MapType(value):
            return pa.map_(pa.string(), _of(value))
        case StructType(fields):
            return pa.struct([pa.field(name, _of(field)) for name, field in fields])


def same_type(given: Any, wanted: Any) -> bool:
    """Check whether ``given``, the type of a table's column, is the same as the declared type ``wanted``.

    A timestamp without a time zone counts as UTC.
    """
    return _compares(given, wanted, _same_scalar)


def fits_into(given: Any, wanted: Any) -> bool:
    """Check whether values of ``given``, the type of a snapshot's column, fit into the declared type ``wanted``.

    ``given`` may be a type that no Bronze table has: an unsigned integer, a dictionary, a timestamp in another unit.
    Whether timestamps in a finer unit lose digits is checked value by value when they are cast.
    """
    if pa.types.is_dictionary(given):
        given = given.value_type
    return _compares(given, wanted, lambda a, b: _same_scalar(a, b) or _wider_scalar(a, b) or _whole_in(a, b))


def is_wider(given: Any, wanted: Any) -> bool:
    """Check whether ``wanted`` can hold each value of ``given``; a struct may have further fields in ``wanted``."""
    return _compares(given, wanted, lambda a, b: _same_scalar(a, b) or _wider_scalar(a, b), may_grow=True)


def _compares(given: Any, wanted: Any, compare: Any, *, may_grow: bool = False) -> bool:
    inner = partial(_compares, compare=compare, may_grow=may_grow)
    if pa.types.is_list(wanted):
        is_list = pa.types.is_list(given) or pa.types.is_large_list(given) or pa.types.is_list_view(given)
        return is_list and inner(given.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        is_map = pa.types.is_map(given) and inner(given.key_type, wanted.key_type)
        return is_map and inner(given.item_type, wanted.item_type)
    if pa.types.is_struct(wanted):
        if not pa.types.is_struct(given):
            return False
        old, new = {f.name: f.type for f in given}, {f.name: f.type for f in wanted}
        if not (old.keys() <= new.keys() if may_grow else [*old] == [*new]):
            return False
        return all(inner(old[name], new[name]) for name in old)
    return bool(compare(given, wanted))


def _same_scalar(given: Any, wanted: Any) -> bool:
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(given))
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given))
    if pa.types.is_binary(wanted):
        return bool(pa.types.is_binary(given) or pa.types.is_large_binary(given) or pa.types.is_binary_view(given))
    return bool(given == wanted)


def _whole_in(given: Any, wanted: Any) -> bool:
    """Check whether ``wanted`` can hold whole numbers of ``given``, for pairs of types that _wider_scalar lacks."""
    if pa.types.is_decimal(wanted) and pa.types.is_integer(given):
        digits = len(str(1 << (given.bit_width - pa.types.is_signed_integer(given))))
        return bool(wanted.precision - wanted.scale >= digits)
    if pa.types.is_unsigned_integer(given) and pa.types.is_signed_integer(wanted):
        return bool(given.bit_width < wanted.bit_width)
    return False


def _wider_scalar(given: Any, wanted: Any) -> bool:
    if pa.types.is_decimal(given) and pa.types.is_decimal(wanted):
        whole = given.precision - given.scale
        return bool(wanted.scale >= given.scale and wanted.precision - wanted.scale >= whole)
    if pa.types.is_signed_integer(given) and pa.types.is_signed_integer(wanted):
        return bool(given.bit_width < wanted.bit_width)
    if wanted == pa.float64():
        return bool(
            given == pa.float32() or (pa.types.is_signed_integer(given) and given.bit_width <= _MAX_WHOLE_IN_DOUBLE)
        )
    return False
