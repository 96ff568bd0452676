"""Parse lines of JSON strictly: no number, name or character silently becomes another."""

import json
from decimal import Decimal
from typing import Any, NoReturn

from medallion.ingest.change_lines import MAX_LINE, is_too_long
from medallion.ingest.sources import NoRecord, Unfit


def parse_line(raw: bytes) -> Any:
    """Parse one line; numbers with a fraction become Decimal.

    Raises NoRecord for text that is not JSON, Unfit for a number that JSON does not have or a name that occurs twice.
    """
    if is_too_long(raw):
        raise NoRecord(f"longer than {MAX_LINE} bytes")
    try:
        return parse_text(_text(raw))
    except Unfit:
        raise
    except (ValueError, RecursionError, ArithmeticError) as error:
        raise NoRecord(_why_not(error)) from None


def _why_not(error: Exception) -> str:
    match error:
        case UnicodeDecodeError(start=start):
            return f"not UTF-8 from byte {start + 1} on"
        case json.JSONDecodeError(msg="Extra data", doc=text, pos=at) if text.lstrip().startswith("{"):
            return "more than one record" if text[at:].lstrip().startswith("{") else "text follows the record"
        case json.JSONDecodeError() | RecursionError() | ArithmeticError():
            return "not JSON"
    return "a number with too many digits"


def parse_text(text: str) -> Any:
    """Parse a text as ``parse_line`` does.

    Raises ValueError, RecursionError or ArithmeticError for text that is not JSON, Unfit as ``parse_line`` does.
    """
    return _DECODER.decode(text)


def is_json(raw: bytes) -> bool:
    """Check whether a whole line is JSON; the first part of a row never is."""
    if is_too_long(raw):
        return False
    try:
        json.loads(_text(raw), parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _text(raw: bytes) -> str:
    """Decode a line as UTF-8: given bytes, the parser would guess the encoding of each line."""
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogatepass")


def _no_constant(name: str) -> NoReturn:
    raise Unfit(f"{name} is not a JSON number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise Unfit("a column appears twice")
    return row


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_distinct)
