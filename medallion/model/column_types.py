"""The SQL types of declared columns: parsed once, so an unsupported type is refused when the registry is built.

Values only: the mappings of types to Arrow and JSON are defined where they are needed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from medallion.errors import MedallionError

_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")
SCALARS = ("BOOLEAN", *_NUMBERS, "STRING", "BINARY", "DATE", "TIMESTAMP")
SUPPORTED = f"{', '.join(SCALARS)}, DECIMAL(p,s), ARRAY<type>, MAP<STRING, type> and STRUCT<name: type, ...>"
_TOKEN = re.compile(r"""\s*([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[<>(),:]|'[^']*'|"[^"]*")""")
_COLUMN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_MAX_PRECISION = 38
_MAX_DEPTH = 20


@dataclass(frozen=True)
class Scalar:
    """One of SCALARS."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class DecimalType:
    """A number of ``precision`` digits, ``scale`` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


@dataclass(frozen=True)
class ArrayType:
    """A list of values of one type, any of which may be null."""

    element: "SqlType"

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True)
class MapType:
    """A map from strings to values of one type, any of which may be null."""

    value: "SqlType"

    def __str__(self) -> str:
        return f"MAP<STRING, {self.value}>"


@dataclass(frozen=True)
class StructType:
    """Fields with names and types, any of which may be null."""

    fields: tuple[tuple[str, "SqlType"], ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{name}: {kind}' for name, kind in self.fields)}>"


SqlType = Scalar | DecimalType | ArrayType | MapType | StructType


def spark_type(kind: SqlType) -> str:
    """Return a type in the form that Spark writes in schemas and plans."""
    match kind:
        case ArrayType(element):
            return f"array<{spark_type(element)}>"
        case MapType(value):
            return f"map<string,{spark_type(value)}>"
        case StructType(fields):
            return f"struct<{','.join(f'{name}:{spark_type(field)}' for name, field in fields)}>"
    return str(kind).lower()


def is_key_type(kind: SqlType) -> bool:
    """Return whether a key can have this type: equal values are identical, and every engine can join by them."""
    return isinstance(kind, DecimalType) or (
        isinstance(kind, Scalar) and kind.name not in {"FLOAT", "DOUBLE", "BINARY"}
    )


def is_joined_by(kind: str) -> bool:
    """Return whether every engine can join by values of a type, which is given in Spark's notation."""
    return not kind.startswith(("array<", "map<", "struct<", "variant", "interval", "binary"))


def is_ordered_type(kind: SqlType) -> bool:
    """Return whether files have minimum and maximum statistics for columns of a type."""
    return isinstance(kind, DecimalType) or (isinstance(kind, Scalar) and kind.name not in {"BOOLEAN", "BINARY"})


def holds_map(kind: SqlType) -> bool:
    """Return whether values of a type contain maps, which Spark cannot compare."""
    match kind:
        case ArrayType(element):
            return holds_map(element)
        case StructType(fields):
            return any(holds_map(field) for _, field in fields)
    return isinstance(kind, MapType)


class UnreadableColumn(MedallionError):
    """A column declaration cannot be parsed, or names a type that is not supported."""


def parse_columns(schema: str) -> Iterator[tuple[str, SqlType, bool, str]]:
    """Yield name, type, whether a value is required, and comment of each column that ``schema`` declares.

    Raises UnreadableColumn, which names the column and the supported types.
    """
    for declaration in _split(schema):
        yield _Parser(declaration).column()


def parse_type(text: str) -> SqlType:
    """Parse the type of a column declaration. Raises UnreadableColumn."""
    parser = _Parser(text)
    kind = parser.type_(0)
    parser.expect("")
    return kind


def _split(schema: str) -> Iterator[str]:
    """Split a schema at its commas, except those within a type or a comment."""
    depth, start, quote = 0, 0, ""
    for place, letter in enumerate(schema):
        if letter in (quote or "'\""):
            quote = "" if quote else letter
        if quote:
            continue
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and not depth:
            yield schema[start:place].strip()
            start = place + 1
    yield schema[start:].strip()


class _Parser:
    """Parses one declaration, word by word."""

    def __init__(self, text: str) -> None:
        self._text, self._words, place = text, [], 0
        while match := _TOKEN.match(text, place):
            self._words.append(match[1])
            place = match.end()
        if text[place:].strip():
            raise self._unreadable()

    def column(self) -> tuple[str, SqlType, bool, str]:
        name = self._next()
        if not _COLUMN_NAME.fullmatch(name):
            raise self._unreadable()
        kind = self.type_(0)
        required = self._words[:2] == ["NOT", "NULL"]
        if required:
            del self._words[:2]
        comment = ""
        if self._words[:1] == ["COMMENT"] and len(self._words) > 1 and self._words[1][0] in "'\"":
            comment = self._words[1][1:-1]
            del self._words[:2]
        self.expect("")
        return name, kind, required, comment

    def type_(self, depth: int) -> SqlType:
        if depth > _MAX_DEPTH:
            raise self._unreadable()
        name = self._next()
        if name in SCALARS:
            return Scalar(name)
        if name == "DECIMAL" and self._words[:1] == ["("]:
            return self._decimal()
        if name == "ARRAY":
            self.expect("<")
            element = self.type_(depth + 1)
            self.expect(">")
            return ArrayType(element)
        if name == "MAP":
            for word in ("<", "STRING", ","):
                self.expect(word)
            value = self.type_(depth + 1)
            self.expect(">")
            return MapType(value)
        if name == "STRUCT":
            return self._struct(depth)
        if name != name.upper():
            raise self._unreadable()
        if name == "VARIANT":
            raise UnreadableColumn(
                f"column {self._text!r}: VARIANT is not supported, as only Spark reads and writes it: declare STRING,"
                " have the source write its JSON as text, and take it apart in a query with GET_JSON_OBJECT"
            )
        raise UnreadableColumn(f"column {self._text!r} is of type {name}, which is not supported: use {SUPPORTED}")

    def _decimal(self) -> DecimalType:
        self.expect("(")
        precision = self._number()
        self.expect(",")
        scale = self._number()
        self.expect(")")
        if not 0 <= scale <= precision <= _MAX_PRECISION or not precision:
            raise UnreadableColumn(
                f"column {self._text!r}: a DECIMAL has 1 to {_MAX_PRECISION} digits, those after the point among them"
            )
        return DecimalType(precision, scale)

    def _struct(self, depth: int) -> StructType:
        fields: dict[str, SqlType] = {}
        word = "<"
        while word != ">":
            self.expect(word)
            name = self._next()
            if not name.isidentifier() or name.casefold() in {known.casefold() for known in fields}:
                raise UnreadableColumn(f"column {self._text!r}: the field {name!r} is no name, or stands there twice")
            if self._words[:1] == [":"]:
                self.expect(":")
            fields[name] = self.type_(depth + 1)
            word = self._words[0] if self._words[:1] in ([","], [">"]) else ","
        self.expect(">")
        return StructType(tuple(fields.items()))

    def _number(self) -> int:
        word = self._next()
        if not word.isdecimal():
            raise self._unreadable()
        return int(word)

    def _next(self) -> str:
        if not self._words:
            raise self._unreadable()
        return self._words.pop(0)

    def expect(self, word: str) -> None:
        """Consume ``word``; an empty ``word`` means the end of the declaration."""
        if (self._next() if word and self._words else "".join(self._words[:1])) != word:
            raise self._unreadable()

    def _unreadable(self) -> UnreadableColumn:
        return UnreadableColumn(
            f"column {self._text!r} cannot be read: write name TYPE, or name TYPE NOT NULL; types are {SUPPORTED}"
        )
