"""A change file that is refused as a whole: recognise by its bytes what it is instead, and build the message."""

import json
import re
from json import JSONDecoder

from medallion.errors import MedallionError
from medallion.model.table import Feed
from medallion.storage.files import Place

AVRO = b"Obj\x01"
JSON_FROM_KAFKA_CONNECT = (  # in place of Avro
    "set format.class=io.confluent.connect.s3.format.json.JsonFormat in Kafka Connect's S3 sink, and have the hour"
    " delivered again as JSON"
)
_HEAD_BYTES = 1 << 16
_SHOWN = 80  # most characters of a line that a message shows
_AVRO_FILE = "an Avro file"
_FORMATS = (
    (b"\x1f\x8b", "gzip data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"PAR1", "a Parquet file"),
    (AVRO, _AVRO_FILE),
    (b"ORC", "an ORC file"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x04\x22\x4d\x18", "LZ4 data"),
    (b"\xff\x06\x00\x00sNaPpY", "Snappy data"),
    (b"%PDF", "a PDF"),
    (b"\xff\xfe\x00\x00", "text in UTF-32"),
    (b"\x00\x00\xfe\xff", "text in UTF-32"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
    (b"\x1e", "a JSON text sequence (RFC 7464)"),
)
_RECORDS_ON_A_LINE = re.compile(r"([^{\n]*)\{")
_BLANK = b" \t\r\n"
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1d\x1f]")  # not in text; RFC 7464 begins records with 1e


def refused_file(
    feed: Feed, hour: str, path: Place, what: str, line: tuple[int, bytes], remedy: str = "have it delivered again"
) -> MedallionError:
    """Return the error of a change file that is refused as a whole.

    Args:
        feed: Its feed.
        hour: Its hour.
        path: Where it landed.
        what: What is wrong with it, as a verb with its object. If the bytes of the file show what it is instead, the
            message says that instead.
        line: The line that shows what is wrong: number and bytes.
        remedy: What to do, unless the bytes show what the file is.
    """
    number, raw = line
    if kind := describe_content(path):
        what, remedy = f"is {kind}", "have it delivered as UTF-8 text with one JSON object on each line"
        remedy = JSON_FROM_KAFKA_CONNECT if kind == _AVRO_FILE else remedy
    is_binary = kind is not None and _CONTROL.search(raw[:_SHOWN]) is not None  # a quote of it would tell nobody more
    return MedallionError.quoting(
        f"{feed.topic} of {hour} is refused: {path} {what}; nothing of the hour was applied: {remedy}, then run the"
        " hour again",
        "" if is_binary else f"; line {number} begins with {shown_bytes(raw)}",
    )


def shown_bytes(raw: bytes) -> str:
    """Quote the first bytes of a line: escaped, at most 80 characters."""
    return ascii(raw[:_SHOWN].decode("utf-8", "backslashreplace"))[: _SHOWN - 1] + "…" * (len(raw) > _SHOWN)


def describe_content(path: Place) -> str | None:
    """Say what a file is instead of JSON lines; None if its first bytes do not show it."""
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    for magic, kind in _FORMATS:
        if head.startswith(magic):
            return kind
    if head and not head.strip(b"\0"):
        return "NUL bytes from its beginning on, as of a file that was allocated and never written"
    if b"\0" in head[:2]:
        return "text in UTF-16 or UTF-32"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(_BLANK)
    if text.startswith(b"<"):
        return "an HTML or XML page, as a store answers with in place of a file"
    if text.startswith(b"["):
        return "one JSON array"
    return _describe_objects(text.decode("utf-8", "replace")) if text.startswith(b"{") else None


def _describe_objects(text: str) -> str | None:
    """Say how the JSON objects in a text are arranged; None if there is one on each line."""
    several_lines = "JSON of which one object spans several lines"
    try:
        _, end = JSONDecoder(parse_int=str, parse_float=str).raw_decode(text)
    except (json.JSONDecodeError, RecursionError):
        return several_lines if not text.partition("\n")[0].strip("{ \r") else None
    if "\n" in text[:end]:
        return several_lines
    if next_record := _RECORDS_ON_A_LINE.match(text, end):
        between = next_record[1]
        return f"JSON whose records have {between[:20]!a} between them instead of line ends"
    return None
