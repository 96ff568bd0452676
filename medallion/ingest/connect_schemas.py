"""Read the schemas in records of Kafka Connect's JsonConverter: they define how each column of a record is written."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from medallion.ingest.change_lines import is_too_long
from medallion.ingest.json_lines import parse_line, parse_text
from medallion.ingest.sources import RecordForms, Unfit
from medallion.ingest.value_forms import Forms

_MOMENTS = {
    "io.debezium.time.Timestamp": "milliseconds",
    "org.apache.kafka.connect.data.Timestamp": "milliseconds",
    "io.debezium.time.MicroTimestamp": "microseconds",
    "io.debezium.time.NanoTimestamp": "nanoseconds",
}
_DATES = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_OTHER_TIMES = ("io.debezium.time.", "org.apache.kafka.connect.data.Time")
_INSIDE = {"array": "items", "map": "values"}
_MAX_DEPTH = 20  # most levels of structs in a schema that are read
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
_MAX_SCHEMAS = 100  # most schemas remembered per file
_PAYLOAD = b'"payload":'


class ConnectSchemas:
    """The schemas of a file's records, each parsed once: nearly all records begin with the same bytes."""

    def __init__(self, forms: Forms) -> None:
        self._plain = replace(forms, decimals="text")
        self._known: dict[bytes, RecordForms | None] = {}
        self._last = b""

    def payload(self, raw: bytes) -> tuple[Any, RecordForms | None]:
        """Return the payload of a record, and the forms of its columns by its schema; None if it has no schema."""
        if self._last and not raw.startswith(self._last):
            self._last = next((beginning for beginning in self._known if raw.startswith(beginning)), self._last)
        if self._last and raw.startswith(self._last) and not is_too_long(raw):
            rest = raw.rstrip()
            if rest.endswith(b"}") and (event := _parse_rest(rest[len(self._last) : -1])) is not _UNREAD:
                return event, self._known[self._last]
        record = parse_line(raw)
        if not isinstance(record, dict) or "payload" not in record or not record.keys() <= {"schema", "payload"}:
            return record, None
        forms = self._forms_of(record.get("schema"))
        self._remember(raw, record, forms)
        return record["payload"], forms

    def _remember(self, raw: bytes, record: Mapping[str, Any], forms: RecordForms | None) -> None:
        """Remember the bytes before the payload if they contain the schema and nothing else."""
        at = raw.find(_PAYLOAD)
        while at >= 0:
            beginning = raw[: at + len(_PAYLOAD)]
            try:
                is_whole = parse_text((beginning + b"0}").decode()) == {**record, "payload": 0}
            except (ValueError, RecursionError):
                is_whole = False
            if is_whole and len(self._known) < _MAX_SCHEMAS:
                self._known[beginning] = forms
                self._last = beginning
                return
            at = raw.find(_PAYLOAD, at + 1)

    def _forms_of(self, schema: Any) -> RecordForms | None:
        """Read the forms of columns from the schema of an envelope or of a flattened record."""
        if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
            return None
        fields = _fields_of(schema)
        row = fields.get("after") or fields.get("before")
        if row is not None and isinstance(row.get("fields"), list):
            fields = _fields_of(row)
        return RecordForms({name: _form_of(field, self._plain) for name, field in fields.items()})


_UNREAD = object()


def _parse_rest(raw: bytes) -> Any:
    try:
        return parse_text(raw.decode("utf-8", "surrogatepass"))
    except Unfit:
        raise
    except (ValueError, RecursionError, ArithmeticError):
        return _UNREAD  # parsing the whole line then raises the error


def _fields_of(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the fields of a struct in a schema by name."""
    fields = schema.get("fields")
    entries = [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    return {field["field"]: field for field in entries if isinstance(field.get("field"), str)}


def _form_of(field: Mapping[str, Any], plain: Forms, depth: int = 0) -> Forms:
    """Return how the values of a field in a schema are written; for an array or a map, how its elements are.

    plain: the form of a field whose schema states only its type. depth: the number of structs that enclose the field.
    """
    while (inside := _INSIDE.get(str(field.get("type")))) and isinstance(field.get(inside), dict):
        field = field[inside]
    name = field.get("name")
    if not isinstance(name, str):
        name = ""
    if name in _MOMENTS:
        return Forms(moments=_MOMENTS[name])
    if name in _DATES:
        return Forms(moments="days", dates=True)
    if name == _DECIMAL:
        parameters = field.get("parameters")
        scale = str(parameters.get("scale", "")) if isinstance(parameters, dict) else ""
        digits = int(scale) if scale.removeprefix("-").isdecimal() and len(scale) < 5 else None
        return Forms(decimals="precise", scale=digits)
    if name.startswith(_OTHER_TIMES):  # a time of day, a year or a duration: its number is neither moment nor date
        return replace(plain, moments=None, dates=False)
    if field.get("type") == "struct" and name != _VARIABLE_DECIMAL and depth < _MAX_DEPTH:
        inner = ((own, _form_of(of, plain, depth + 1)) for own, of in _fields_of(field).items())
        return replace(plain, fields=tuple(inner))
    return replace(plain, variable_scale=name == _VARIABLE_DECIMAL)
