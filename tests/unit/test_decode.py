"""Change files: every line becomes a typed change or a rejected line with its number and reason."""

import gzip
import json
import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from medallion.errors import MedallionError
from medallion.ingest.decode import Decoded, decode_file, why_unfit
from medallion.ingest.refused_file import refused_file
from medallion.model.table import Feed

HOUR = "2025-11-30T00"
FEED = Feed(
    name="bronze_things",
    keys=("id",),
    schema="""
        id BIGINT NOT NULL, name STRING, price DECIMAL(6,2), quantity INT NOT NULL, sold BOOLEAN, day DATE,
        seen_at TIMESTAMP
    """,
)


@pytest.fixture
def decode(tmp_path: Path) -> Any:
    def run(content: str | bytes) -> tuple[Decoded, list[dict[str, Any]]]:
        path = tmp_path / "2025-11-30T00.json"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        result = decode_file(path, FEED, HOUR, tmp_path / "decoded.parquet")
        return result, pq.read_table(tmp_path / "decoded.parquet").to_pylist()

    return run


def insert(**row: Any) -> str:
    return json.dumps({"insert": {"id": 1, "quantity": 1} | row}) + "\n"


def test_a_line_becomes_a_typed_change_with_its_number(decode: Any) -> None:
    result, changes = decode("\n" + insert(name="x", price=1.5, sold=True, day="2024-02-29") + '{"delete": {"id": 7}}')
    assert (result.lines, result.changes, result.rejected) == (2, 2, [])
    assert changes[0] == {
        "_line": 2,
        "_deleted": False,
        "id": 1,
        "name": "x",
        "price": Decimal("1.50"),
        "quantity": 1,
        "sold": True,
        "day": date(2024, 2, 29),
        "seen_at": None,
    }
    assert (changes[1]["_line"], changes[1]["_deleted"], changes[1]["id"]) == (3, True, 7)


@pytest.mark.parametrize("price", [12.3, "12.3", "12.30", "12.300"])
def test_a_decimal_is_a_number_or_a_string(decode: Any, price: Any) -> None:
    assert decode(insert(price=price))[1][0]["price"] == Decimal("12.30")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2025-11-30T01:02:03", datetime(2025, 11, 30, 1, 2, 3, tzinfo=UTC)),
        ("2025-11-30 01:02:03Z", datetime(2025, 11, 30, 1, 2, 3, tzinfo=UTC)),
        ("2025-11-30T01:02:03.123456000Z", datetime(2025, 11, 30, 1, 2, 3, 123456, tzinfo=UTC)),
        ("2025-11-30T01:02:03.5", datetime(2025, 11, 30, 1, 2, 3, 500000, tzinfo=UTC)),
        ("2025-11-30T01:02:03+02:00", datetime(2025, 11, 29, 23, 2, 3, tzinfo=UTC)),
    ],
)
def test_a_timestamp_is_utc_unless_it_says_otherwise(decode: Any, text: str, moment: datetime) -> None:
    assert decode(insert(seen_at=text))[1][0]["seen_at"] == moment


@pytest.mark.parametrize(
    ("seen_at", "reason"),
    [
        ("2025-12-01T01:00:00Z", None),  # as late as the skew allows
        ("2025-12-01T01:00:00.000001Z", "later than the end of hour 2025-11-30T00 by more than 1 day, 0:00:00"),
        ("2025-12-01T03:00:00+02:00", None),
        ("9999-12-31T23:59:59Z", "seen_at: 9999-12-31T23:59:59+00:00 is later than the end of hour 2025-11-30T00"),
        ("1900-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00Z", "seen_at: 0001-01-01T00:00:00+00:00 is before 1900"),
        (None, None),
    ],
)
def test_a_row_is_rejected_when_it_cannot_have_happened_by_the_end_of_its_hour(
    tmp_path: Path, seen_at: str | None, reason: str | None
) -> None:
    path, feed = tmp_path / f"{HOUR}.json", replace(FEED, event_time=("seen_at",))
    path.write_text(insert(seen_at=seen_at) + json.dumps({"delete": {"id": 1, "seen_at": seen_at}}))
    result = decode_file(path, feed, HOUR, tmp_path / "decoded.parquet")
    assert [line for line, _, _ in result.rejected] == [1] * (reason is not None)
    assert reason is None or reason in result.rejected[0][1]
    assert why_unfit(feed, HOUR, insert(seen_at=seen_at)) == (result.rejected[0][1] if reason else None)
    assert not decode_file(path, FEED, HOUR, tmp_path / "decoded.parquet").rejected, "other columns may lie ahead"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (insert(seen_at="2025-11-30T01:02:03.1234567Z"), "seen_at: '2025-11-30T01:02:03.1234567Z' is not a TIMESTAMP"),
        ("nonsense\n", "not JSON"),
        (f'{{"insert": {{"id": {"1" * 5000}, "quantity": 1}}}}\n', "a number with too many digits"),
        (insert(id=1).strip() + insert(id=2), "more than one record"),
        (insert(id=1).strip() + ",\n", "text follows the record"),
        ('{"insert": {"id": 1, "price": NaN, "quantity": 1}}\n', "NaN is not a JSON number"),
        ('{"insert": {"id": 1, "id": 2, "quantity": 1}}\n', "a column appears twice"),
        ("[1]\n", "not an object with either insert or delete"),
        ('{"insert": {}, "delete": {}}\n', "not an object with either insert or delete"),
        ('{"upsert": {"id": 1}}\n', "operation 'upsert' is neither insert nor delete"),
        ('{"insert": 1}\n', "insert holds no row"),
        (insert(id=None), "id is null but must have a value"),
        (insert(quantity=None), "quantity is null but must have a value"),
        ('{"delete": {"quantity": 1}}\n', "id is null but must have a value"),
        (insert(id="1"), "id: '1' is not a BIGINT"),
        (insert(id=True), "id: 'True' is not a BIGINT"),
        (insert(quantity=1 << 31), "quantity: '2147483648' is not an INT"),
        (insert(quantity=1.0), "quantity: '1.0' is not an INT"),
        (insert(price="1.234"), "price: '1.234' is not a DECIMAL(6,2)"),
        (insert(price=10000), "price: '10000' is not a DECIMAL(6,2)"),
        (insert(price="much"), "price: 'much' is not a DECIMAL(6,2)"),
        (insert(name=5), "name: '5' is not a STRING"),
        (insert(name="a\0b"), "name: 'a\\x00b' is not a STRING"),
        (insert(sold="true"), "sold: 'true' is not a BOOLEAN"),
        (insert(day="2025-02-29"), "day: '2025-02-29' is not a DATE"),
        (insert(seen_at="yesterday"), "seen_at: 'yesterday' is not a TIMESTAMP"),
        (insert(seen_at="2025-11-30T25:00:00"), "seen_at: '2025-11-30T25:00:00' is not a TIMESTAMP"),
        (insert(name="x" * (1 << 20)), "longer than 1048576 bytes"),
    ],
)
def test_a_line_that_does_not_fit_is_rejected_whole(decode: Any, line: str, reason: str) -> None:
    result, changes = decode(insert(id=41) + line + insert(id=43))
    assert [change["id"] for change in changes] == [41, 43]
    assert [(number, why) for number, why, _ in result.rejected] == [(2, reason)]


def test_line_fits_when_it_is_as_long_as_a_line_may_be(decode: Any) -> None:
    spare = (1 << 20) - len(insert(name="").rstrip("\n"))
    result, changes = decode(insert(name="x" * spare) + insert(name="x" * (spare + 1)))
    assert (len(changes), [number for number, _, _ in result.rejected]) == (1, [2])


@pytest.mark.parametrize(
    "line",
    [
        insert(id=2).rstrip() + "\r" * (1 << 20) + '{"insert": {"id": 3, "quantity": 1}}\n',
        insert(id=2).rstrip() + " " * (1 << 20) + '{"insert": {"id": 3, "quantity": 1}}\n',
        " " * (1 << 20) + insert(id=3),
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_is_rejected_when_what_is_too_long_in_it_is_blank(decode: Any, mark: bytes, line: str) -> None:
    result, changes = decode(mark + line.encode() + insert(id=4).encode())
    assert [change["id"] for change in changes] == [4]
    assert [(number, why) for number, why, _ in result.rejected] == [(1, "longer than 1048576 bytes")]


def test_first_line_is_rejected_when_it_is_too_long_with_its_byte_order_mark(decode: Any) -> None:
    line = insert(id=2).rstrip()
    result, changes = decode(b"\xef\xbb\xbf" + line.encode() + b" " * ((1 << 20) - len(line) - 2) + b'{"insert": {}}\n')
    assert (changes, [why for _, why, _ in result.rejected]) == ([], ["longer than 1048576 bytes"])


def test_a_rejected_line_is_kept_as_it_came(decode: Any) -> None:
    assert decode(b'{"insert": \xff}\n')[0].rejected == [(1, "not UTF-8 from byte 12 on", '{"insert": \\xff}\n')]


def test_a_delete_needs_its_key_alone(decode: Any) -> None:
    result, changes = decode('{"delete": {"id": 1}}\n')
    assert (result.rejected, changes[0]["quantity"]) == ([], None)


@pytest.mark.parametrize("cut", ['{"insert": {"id": 2, "qua', b'{"insert": {"id": 2, "name": "\xc3'])
def test_a_file_cut_off_in_the_middle_of_a_line_is_refused(decode: Any, cut: str | bytes) -> None:
    whole = insert().encode()
    with pytest.raises(MedallionError, match="cut off in the middle of line 2"):
        decode(whole + (cut if isinstance(cut, bytes) else cut.encode()))


RECORD = b'{"insert": {"id": 1, "quantity": 1}}'


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (insert().encode("utf-16"), "text in UTF-16"),
        (insert().encode("utf-16-le"), "text in UTF-16 or UTF-32"),
        (insert().encode("utf-16-be") + b"\0", "text in UTF-16 or UTF-32"),
        (insert().encode("utf-32"), "text in UTF-32"),
        (gzip.compress(b"", mtime=0), "gzip data"),
        (b"PK\x03\x04\x14", "a zip archive"),
        (b"PAR1\x15\x04", "a Parquet file"),
        (b"\0" * 5_000, "NUL bytes from its beginning on"),
        (b"<html><body>503 Slow Down</body></html>", "an HTML or XML page"),
        (RECORD * 3, "JSON whose records have '' between them instead of line ends"),
        (RECORD + b"\r" + RECORD, "JSON whose records have '\\r' between them instead of line ends"),
        (b"[" + RECORD + b",\n" + RECORD + b"]", "one JSON array"),
        (json.dumps({"insert": {"id": 1}}, indent=1)[:-1].encode(), "JSON of which one object spans several lines"),
    ],
)
def test_refused_file_is_called_what_it_is(tmp_path: Path, content: bytes, kind: str) -> None:
    path = tmp_path / f"{HOUR}.json"
    path.write_bytes(content)
    refused = refused_file(FEED, HOUR, path, "is cut off", (1, content))
    assert refused.without_data.startswith(f"things of {HOUR} is refused: {path} is {kind}")
    is_text = content.isascii() and content.decode("ascii").replace("\n", "").replace("\r", "").isprintable()
    quote = r"; line 1 begins with [ -~]{1,79}…?" if is_text else ""
    assert re.fullmatch(rf".*, then run the hour again{quote}", str(refused))


@pytest.mark.parametrize("content", [insert().encode("utf-16"), gzip.compress(b"", mtime=0), RECORD * 3, b"\0" * 5_000])
def test_file_without_a_line_end_is_not_taken_for_one_that_was_cut_off(decode: Any, content: bytes) -> None:
    with pytest.raises(MedallionError, match=f"things of {HOUR} is refused") as refused:
        decode(content + b"{")
    assert "cut off" not in str(refused.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_no_line_in_another_encoding_is_a_record_though_it_could_be_read(decode: Any, encoding: str, end: str) -> None:
    records = 0
    with suppress(MedallionError):
        records = decode((insert().strip() + end).encode(encoding))[0].records
    assert records == 0, "and a file without any is refused where the hour is decoded"


def test_byte_order_mark_of_a_file_that_was_appended_is_no_fault(decode: Any) -> None:
    _, changes = decode(RECORD + b"\n\xef\xbb\xbf" + insert(id=2).encode() + b"\n")
    assert len(changes) == 2


@pytest.mark.parametrize("damaged", [b"\0" * 3, b"\0" * 3 + b"\n", b"\0" * 4096 + RECORD + b"\n"])
def test_a_file_with_a_part_that_was_never_written_is_refused(decode: Any, damaged: bytes) -> None:
    with pytest.raises(MedallionError, match="has NUL bytes in line 2: a part was never written"):
        decode(RECORD + b"\n" + damaged)


def test_line_of_several_records_says_so(decode: Any) -> None:
    result, changes = decode(RECORD + b"\n" + RECORD * 2 + b"\n")
    assert (len(changes), [why for _, why, _ in result.rejected]) == (1, ["more than one record"])


@pytest.mark.parametrize(
    "bad", [insert(name=5), '{"insert": {"id": 1, "id": 2}}', '{"insert": {"id": 1, "price": NaN}}']
)
def test_last_line_is_rejected_when_it_is_whole_json_that_does_not_fit(decode: Any, bad: str) -> None:
    result, changes = decode(insert(id=1) + bad.rstrip())
    assert ([change["id"] for change in changes], [number for number, _, _ in result.rejected]) == ([1], [2])


@pytest.mark.parametrize(
    "cut", ['{"insert": {"id": 1, "id": 2}', '{"insert": {"id": 1, "price": NaN', insert(name="x" * (1 << 20)).rstrip()]
)
def test_last_line_is_cut_off_when_it_is_no_whole_json_or_too_long(decode: Any, cut: str) -> None:
    with pytest.raises(MedallionError, match="cut off in the middle of line 2"):
        decode(insert() + cut)


def test_a_last_line_without_line_end_counts_when_it_is_whole(decode: Any) -> None:
    assert decode(insert(id=1) + insert(id=2).rstrip())[0].changes == 2


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_is_an_hour_without_changes(decode: Any, content: str) -> None:
    result, changes = decode(content)
    assert (result.lines, changes) == (0, [])


def test_a_byte_order_mark_is_not_part_of_the_first_line(decode: Any) -> None:
    assert decode(b"\xef\xbb\xbf" + insert().encode())[0].changes == 1


def test_a_column_that_is_not_declared_is_left_out_and_counted(decode: Any) -> None:
    result, changes = decode(insert(colour="red") + insert(id=2) + insert(id=3, colour="blue"))
    assert (result.rejected, [change["id"] for change in changes]) == ([], [1, 2, 3])
    assert result.unknown == {"colour": 2}
    assert "colour" not in changes[0]


def test_a_column_that_no_line_has_is_named_once_there_are_lines_enough_to_tell(decode: Any) -> None:
    line = insert(price=1, sold=True, day=None, seen_at=None)
    assert decode(line * 99)[0].absent == []
    assert decode(line * 100)[0].absent == ["name"]
    assert decode(line * 99 + insert(name=None))[0].absent == []
    assert decode('{"delete": {"id": 1}}\n' * 200)[0].absent == [], "a delete may hold its key alone"


def test_corrected_line_is_read_at_the_place_of_the_rejected_one(tmp_path: Path) -> None:
    path = tmp_path / "changes.json"
    path.write_text(insert(id=1) + "not json\n" + insert(id=3))
    result = decode_file(path, FEED, HOUR, tmp_path / "changes.parquet", {2: insert(id=2).rstrip()})
    assert (result.rejected, result.changes) == ([], 3)
    assert pq.read_table(tmp_path / "changes.parquet")["id"].to_pylist() == [1, 2, 3]


def test_bad_lines_beyond_what_memory_should_hold_refuse_the_file(decode: Any) -> None:
    with pytest.raises(MedallionError, match="more than 64 MB of bad lines up to line 64"):
        decode(b'"' + b"x" * (1 << 20) + b'"\n' + (b'"' + b"x" * ((1 << 20) - 3) + b'"\n') * 70)


def test_json_deeper_than_any_row_is_rejected(decode: Any) -> None:
    result, _ = decode('{"insert": ' + "[" * 100_000 + "\n" + insert())
    assert [(number, reason) for number, reason, _ in result.rejected] == [(1, "not JSON")]
