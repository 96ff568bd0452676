"""A poison value of any kind in a column of any type: the line is applied or quarantined, and the hour goes on."""

import json
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from medallion.ingest import apply, landing, ledger, quarantine
from medallion.ingest.decode import decode_file
from medallion.ingest.schema_evolution import arrow_schema
from medallion.ingest.source import digest
from medallion.model.table import Feed
from medallion.storage.lake import Lake

TYPES = ("DECIMAL(12,2)", "DECIMAL(38,18)", "BIGINT", "INT", "DATE", "TIMESTAMP", "BOOLEAN", "STRING")
FEED = Feed(
    name="bronze_things",
    keys=("id",),
    schema=", ".join(["id BIGINT NOT NULL", *(f"c{place} {sql}" for place, sql in enumerate(TYPES))]),
)
HOUR = "2025-11-30T00"

# As they stand in a line of JSON, so that also what is no JSON can be among them.
VALUES = [
    *("NaN", "Infinity", "-Infinity", "-0", "-0.0", "0e0", "1e400", "-1e400", "1e1000000", "1e-1000000", "1E+999999"),
    *("1e99999999999999999999", "1e-99999999999999999999", "1" * 10_000, "0." + "1" * 10_000, "-" + "9" * 5_000),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "2147483648", "1.0", "1e2", "01", "+1"),
    *("true", "false", "null", "True", "None", "[]", "{}", "[1]", '{"a": 1}', '[["a"]]', "[" * 900 + "]" * 900),
    *("[" * 100_000, '{"a":' * 900 + "1" + "}" * 900, '{"a": 1, "a": 2}', '""', '" "', '"\\u0000"', '"a\\u0000b"'),
    *(
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '"\\ud83d\\ude00"',
        '"\\u202egnp.exe"',
        '"\x7f"',
        '"\t"',
        '"\\n"',
        '"é"',
        '"\ufeff"',
    ),
    *('"NaN"', '"sNaN"', '"Infinity"', '"-0"', '"1e1000000"', '"1_000"', '" 1 "', '"１２"', '"0x10"', '"1,5"', '"--1"'),
    *('"9999999999.99"', '"10000000000"', '"0.001"', '"0.010"', '"1e-2"', f'"{"9" * 5_000}"', f'"0.{"0" * 5_000}1"'),
    *('"0000-01-01"', '"0001-01-01"', '"9999-12-31"', '"10000-01-01"', '"-0001-01-01"', '"2025-02-29"', '"2025-13-01"'),
    *('"2024-02-29"', '"2025-1-1"', '"20250101"', '"2025-W01-1"', '"２０２５-01-01"', '"2025-01-01T00:00:00"'),
    *('"2025-12-31T23:59:60Z"', '"2025-01-01T24:00:00Z"', '"0000-01-01T00:00:00Z"', '"0001-01-01T00:00:00+23:59"'),
    *('"9999-12-31T23:59:59.999999999Z"', '"9999-12-31T23:59:59-23:59"', '"10000-01-01T00:00:00Z"'),
    *(
        '"2025-01-01T00:00:00+26:00"',
        '"2025-01-01T00:00:00+24:00"',
        '"2025-01-01T00:00:00-99:99"',
        '"2025-01-01T00:00"',
    ),
    *(
        '"2025-01-01T00:00:00.1234567890Z"',
        '"2025-01-01 00:00:00+00:00"',
        '"2025-03-30T02:30:00"',
        "1735689600",
        "1e18",
    ),
    f'"{"x" * 100_000}"',
]
ODD_NAMES = [
    "\ud800",
    "\udfff\ud800",
    "a\nb",
    "a\x00b",
    "\u202eevil",
    "",
    " ",
    "id ",
    "ID",
    "_line",
    "_deleted",
    "é",
    "x" * 5_000,
]


def odd_value(chance: random.Random) -> str:
    """One of those above, or a mutation of one."""
    value = chance.choice(VALUES)
    if chance.random() < 0.5:
        return value
    letters = list(value[:2_000])
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(letters) + 1)
        letters[place : place + chance.randint(0, 1)] = chance.choice('0123456789.-+eE"\\[]{}:,TZ \x00é\u202e')
    return "".join(letters).replace("\n", "")


def odd_line(chance: random.Random, key: int) -> str:
    """A line with an odd value in one column; in some, an odd column or operation too."""
    columns = [f'"id": {key}', f'"c{chance.randrange(len(TYPES))}": {odd_value(chance)}']
    if chance.random() < 0.1:
        columns.append(f"{json.dumps(chance.choice(ODD_NAMES))}: {chance.choice(['1', 'null', odd_value(chance)])}")
    if chance.random() < 0.05:
        columns.append(columns[0])
    operation = chance.choice(["insert"] * 9 + ["delete", "Insert", "\\ud800", ""])
    return f'{{"{operation}": {{{", ".join(columns)}}}}}'


def valid_line(key: int) -> str:
    return json.dumps({"insert": {"id": key, "c0": "1.50", "c2": key, "c4": "2025-01-01", "c7": "plain"}})


@pytest.mark.parametrize("seed", range(4))
def test_an_odd_line_is_applied_or_rejected_with_a_reason_and_its_neighbours_are_applied(
    tmp_path: Path, seed: int
) -> None:
    chance, path = random.Random(seed), tmp_path / f"{HOUR}.json"
    lines = [valid_line(n) if n % 2 else odd_line(chance, n) for n in range(3_000)]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
    result = decode_file(path, FEED, HOUR, tmp_path / "decoded.parquet")
    applied = {row["_line"]: row for row in pq.read_table(tmp_path / "decoded.parquet").to_pylist()}
    rejected = {number: reason for number, reason, _ in result.rejected}
    assert result.lines == len(lines)
    assert {*applied, *rejected} == set(range(1, len(lines) + 1))
    assert not {*applied} & {*rejected}
    assert all(rejected.values())
    assert {n + 1 for n in range(3_000) if n % 2} <= set(applied)
    assert rejected
    assert len(applied) > 1_500  # some odd values are values
    for number, reason, raw in result.rejected:
        reason.encode()  # it can be printed and stored
        assert len(reason) < 400
        assert raw == f"{lines[number - 1]}\n".encode("utf-8", "surrogatepass").decode("utf-8", "backslashreplace")


@pytest.mark.parametrize("place", range(len(TYPES)), ids=TYPES)
def test_a_value_is_taken_as_it_is_or_not_at_all(tmp_path: Path, place: int) -> None:
    path = tmp_path / f"{HOUR}.json"
    lines = [f'{{"insert": {{"id": {number}, "c{place}": {value}}}}}\n' for number, value in enumerate(VALUES)]
    path.write_bytes("".join(lines).encode("utf-8", "surrogatepass"))
    result = decode_file(path, FEED, HOUR, tmp_path / "decoded.parquet")
    taken = {row["id"]: row[f"c{place}"] for row in pq.read_table(tmp_path / "decoded.parquet").to_pylist()}
    assert len(taken) + len(result.rejected) == len(VALUES)
    assert VALUES.index("null") in taken
    for number, found in taken.items():
        given = json.loads(VALUES[number], parse_float=Decimal)
        if found is None:
            assert given is None
        elif TYPES[place].startswith("DECIMAL"):
            assert found == Decimal(given)
        elif TYPES[place] == "DATE":
            assert str(found) == given
        elif TYPES[place] != "TIMESTAMP":
            assert (found, type(found)) == (given, type(given))


def test_an_hour_full_of_poison_is_applied_and_its_bad_lines_are_in_quarantine(tmp_path: Path) -> None:
    chance, lake = random.Random(7), Lake(str(tmp_path / "lake"))
    DeltaTable.create(lake.path(FEED.name), arrow_schema(FEED.columns))
    lines = [valid_line(n) if n % 2 else odd_line(chance, n) for n in range(1_000)]
    file = lake.landing / "things" / f"{HOUR}.json"
    file.parent.mkdir(parents=True)
    file.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
    ledger.write_manifest(lake, ledger.Manifest(HOUR, "/source", {"things": digest(file.open("rb"))}))
    decoded = landing.decode_hour(lake, (FEED,), HOUR, 1.0)
    quarantine.write_rejected(lake, FEED, HOUR, "run", decoded[FEED.name])
    apply.apply_feed(lambda: pytest.fail("needs no Spark"), lake, FEED, HOUR, decoded[FEED.name])
    rows = pa.table(DeltaTable(lake.path(FEED.name)).to_pyarrow_table())
    assert {n for n in range(1_000) if n % 2} <= set(rows["id"].to_pylist())
    assert len(quarantine.read_rejected(lake, FEED)) == len(decoded[FEED.name].rejected) > 100
    for note in landing.drift((FEED,), decoded):
        note.encode()
        assert note.isprintable()


def test_odd_columns_are_named_escaped_short_and_twenty_at_most(tmp_path: Path) -> None:
    path = tmp_path / f"{HOUR}.json"
    names = [*ODD_NAMES, *(f"column_{n}" for n in range(5_000))]
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"insert": {"id": n, name: 1}}) + "\n" for n, name in enumerate(names))
    result = decode_file(path, FEED, HOUR, tmp_path / "decoded.parquet")
    assert result.changes == len(names)
    notes = [note for note in landing.drift((FEED,), {FEED.name: result}) if "has a column" in note]
    assert len(notes) <= 20
    assert all(note.isprintable() and len(note) < 300 for note in notes)
    assert len(landing.drift((FEED,), {FEED.name: result})) <= 20 + 1 + len(TYPES)
    assert any("more columns" in note for note in landing.drift((FEED,), {FEED.name: result}))
