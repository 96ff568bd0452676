"""The real thing: ``python -m tests.trials.debezium [--hours N] [--transactions N] [--seed N] [--jars DIR]``.

A PostgreSQL with logical decoding is changed while two of Debezium's engines follow it: one writes envelopes with their
schemas and decimals as bytes, the other flattened records without schemas. Their records become the hourly files of
Kafka Connect's S3 sink; a project for each reads them into a lake, and after every hour the rows of the published
release are compared with those that the database had then. An hour is a few seconds of the database's clock. One engine
is killed on the way, and some files come twice. Exit code 1 when a row differs.
It needs PostgreSQL's programs, Java, and Maven, which fetches Debezium from Maven Central.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from medallion.hours import hour_range
from medallion.inspect.query import open_release
from medallion.ops import releases
from medallion.settings import Settings
from medallion.storage.lake import Lake
from tests.trials.debezium.database import COLUMNS, TABLES, Shop, rows, server
from tests.trials.debezium.sink import write_hours

HERE = Path(__file__).parent
FIRST_HOUR = datetime(2025, 11, 30, tzinfo=UTC)
FEEDS = {
    "orders": """
        id BIGINT NOT NULL, customer STRING NOT NULL, total DECIMAL(12,2), rate DECIMAL(18,9), ratio DECIMAL(20,5),
        placed_at TIMESTAMP, shipped_at TIMESTAMP, day DATE, paid BOOLEAN, weight DOUBLE, height FLOAT,
        quantity SMALLINT, note STRING, photo BINARY, tags ARRAY<STRING>, doc STRING
    """,
    "items": "order_id BIGINT NOT NULL, line INT NOT NULL, product STRING, price DECIMAL(10,2)",
}
KEYS = {"orders": ("id",), "items": ("order_id", "line")}
_WAIT_SECONDS = 300


@dataclass(frozen=True)
class Way:
    """One way to set Debezium up. properties: of the engine. source: lines of [source] beside format and layout."""

    name: str
    properties: dict[str, str]
    source: str


WAYS = (
    Way(
        "envelopes",
        {"converter.schemas.enable": "true", "decimal.handling.mode": "precise"},
        "",
    ),
    Way(
        "flattened",
        {
            "converter.schemas.enable": "false",
            "decimal.handling.mode": "string",
            "transforms": "unwrap",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
            "transforms.unwrap.add.fields": "op,lsn,source.ts_ms",
        },
        'moments = "microseconds"\n',
    ),
)


def main() -> int:
    """Run it and report."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.trials.debezium", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("--hours", type=int, default=4, help="how many hours the database is changed  [4]")
    parser.add_argument("--transactions", type=int, default=150, help="of an hour  [150]")
    parser.add_argument("--seed", type=int, default=1, help="chooses the changes")
    parser.add_argument(
        "--jars", type=Path, help="Debezium's JARs; fetched there where it is empty  [a temporary folder]"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trial-debezium-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server is another user's
        jars = given.jars or folder / "jars"
        if not any(jars.glob("*.jar")):
            fetch = [
                "mvn",
                "-q",
                "-B",
                "-f",
                HERE / "pom.xml",
                "dependency:copy-dependencies",
                f"-DoutputDirectory={jars}",
            ]
            subprocess.run(fetch, check=True)
        with server(folder / "postgres") as place, psycopg.connect(place, autocommit=True) as connection:
            say(connection.execute("SELECT version()").fetchall()[0][0])
            say(f"Debezium {next(jars.glob('debezium-embedded-*.jar')).stem.removeprefix('debezium-embedded-')}")
            connection.execute(TABLES)
            shop = Shop(connection, given.seed)
            shop.change(given.transactions)  # what the connector's own snapshot reads
            logs, ends, expected = follow(folder, jars, connection, shop, given)
            say(f"changes: {', '.join(f'{count} x {kind}' for kind, count in sorted(shop.counts.items()))}")
        hours = [*hour_range(f"{FIRST_HOUR:%Y-%m-%dT%H}", f"{FIRST_HOUR:%Y-%m-%dT}{given.hours:02}")]
        wrong = [differing(folder, way, logs[way.name], (hours, ends, expected), given.seed) for way in WAYS]
    return int(any(wrong))


def follow(
    folder: Path, jars: Path, connection: "psycopg.Connection[Any]", shop: Shop, given: argparse.Namespace
) -> tuple[dict[str, Path], list[int], list[dict[str, list[tuple[Any, ...]]]]]:
    """Change the database hour by hour while the engines follow it.

    Returns the log of each way, when each hour ended in milliseconds since 1970, and the rows of each table then.
    """
    logs = {way.name: folder / way.name / "log" for way in WAYS}
    engines = {way.name: start(folder, jars, way, connection) for way in WAYS}
    ends: list[int] = []
    expected: list[dict[str, list[tuple[Any, ...]]]] = []
    try:
        existing = sum(len(rows(connection, table)) for table in COLUMNS)
        wait("the connector's snapshot", lambda: all(count(log) >= existing for log in logs.values()))
        for hour in range(given.hours):
            for part in range(3):
                shop.change(given.transactions // 3)
                if (hour, part) == (1, 1):
                    way = WAYS[0]
                    engines[way.name].kill()
                    engines[way.name].wait()
                    say(f"killed the engine of {way.name} after {count(logs[way.name]):,} records")
                    engines[way.name] = start(folder, jars, way, connection)
            time.sleep(0.1)
            expected.append({table: rows(connection, table) for table in COLUMNS})
            ((end,),) = connection.execute("SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT").fetchall()
            ends.append(end)
            time.sleep(0.1)
        connection.execute("INSERT INTO orders (id, customer) VALUES (-1, 'the end')")
        wait("the last change", lambda: all(has(log, "the end") for log in logs.values()))
    finally:
        for engine in engines.values():
            if engine.stdin is not None:
                engine.stdin.close()
            engine.wait(60)
    return logs, ends, expected


def start(folder: Path, jars: Path, way: Way, connection: "psycopg.Connection[Any]") -> "subprocess.Popen[bytes]":
    """Start an engine, or start it again where it had come to."""
    own = folder / way.name
    own.mkdir(exist_ok=True)
    info = connection.info
    properties = {
        "name": way.name,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "slot.name": way.name,
        "publication.name": way.name,
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.orders,public.items",
        "topic.prefix": "shop",
        "database.hostname": info.host,
        "database.port": str(info.port),
        "database.user": info.user,
        "database.password": "",
        "database.dbname": info.dbname,
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(own / "offsets"),
        "offset.flush.interval.ms": "5000",
        **way.properties,
    }
    (own / "engine.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = ["java", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars}/*"]
    command += [str(HERE / "ChangeLog.java"), str(own / "engine.properties"), str(own / "log")]
    with (own / "output").open("ab") as output:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)


def differing(
    folder: Path,
    way: Way,
    log: Path,
    about: tuple[Sequence[str], Sequence[int], Sequence[dict[str, list[tuple[Any, ...]]]]],
    seed: int,
) -> list[str]:
    """Read what an engine wrote into a lake of its own; the hours and tables whose rows are not the database's."""
    hours, ends, expected = about
    project = folder / way.name / "project"
    write_project(project, way)
    written = write_hours(log, project / "source", hours, ends, random.Random(seed))
    say(f"{way.name}: {written.records:,} records in {written.files:,} files, {written.again} of them delivered again")
    say(f"{way.name}: {written.without_content:,} tombstones left out")
    medallion(project, "source", "check")
    medallion(project, "load")
    medallion(project, "refresh", "--from-hour", hours[0], "--to-hour", hours[-2])
    lake, wrong = Lake.of(Settings(lake=str(project / "lake"))), list[str]()
    for release in releases.read_all(lake):
        if release.hour is None:
            continue
        for table in COLUMNS:
            with open_release(lake, release) as connection:
                query = f"SELECT {COLUMNS[table]} FROM silver_{table}"
                found = connection.execute(query).to_arrow_table().to_pylist()
            own = {key_of(table, row): plain([*row.values()]) for row in found}
            theirs = expected[hours.index(release.hour)][table]
            names = COLUMNS[table].split(", ")
            database = {key_of(table, dict(zip(names, row, strict=True))): plain(row) for row in theirs}
            differ = [key for key in own.keys() | database.keys() if own.get(key) != database.get(key)]
            say(f"{way.name} {release.hour} {table}: {len(own)} rows, {len(differ)} differ")
            for key in differ[:3]:
                say(f"  {key}: here {own.get(key)}, there {database.get(key)}"[:600])
            wrong += [f"{release.hour} {table}"] * bool(differ)
    missing = len(hours) - 1 - sum(release.hour is not None for release in releases.read_all(lake))
    return wrong + ["hours that were not published"] * bool(missing)


def write_project(project: Path, way: Way) -> None:
    """Write a project of two feeds, each with a table that repeats it, and an empty snapshot."""
    for layer in ("bronze", "silver"):
        (project / "spark_jobs" / layer).mkdir(parents=True)
    (project / "medallion.toml").write_text(
        '[project]\nname = "trial"\nlayers = ["bronze", "silver"]\n\n[source]\npath = "source"\nformat = "debezium"\n'
        'layout = "topics/shop.public.{feed}/year={YYYY}/month={MM}/day={DD}/hour={HH}/*.json.gz"\n'
        f'{way.source}\n[lake]\npath = "lake"\n'
    )
    for feed, schema in FEEDS.items():
        (project / "spark_jobs" / "bronze" / f"{feed}.py").write_text(
            f'"""{feed.capitalize()}, as the shop has them."""\n\nfrom medallion import Feed\n\n'
            f'TABLE = Feed(keys={KEYS[feed]!r}, schema="""{schema}""")\n'
        )
        (project / "spark_jobs" / "silver" / f"{feed}.py").write_text(
            f'"""{feed.capitalize()}, as they are."""\n\nfrom medallion import Table\n\n'
            f'TABLE = Table(keys={KEYS[feed]!r}, query="SELECT {COLUMNS[feed]} FROM {{bronze_{feed}}}")\n'
        )
        place = project / "source" / "snapshot" / f"bronze_{feed}"
        place.mkdir(parents=True)
        keys = pa.schema([(key, pa.int64() if key != "line" else pa.int32()) for key in KEYS[feed]])
        text = pa.schema([*keys, *([pa.field("customer", pa.string())] if feed == "orders" else [])])
        pq.write_table(text.empty_table(), place / "part.parquet")
    medallion(project, "plan", "--write")


def medallion(project: Path, *words: str) -> None:
    """Run a command of the project; its last lines are said."""
    command = [str(Path(sys.executable).with_name("medallion")), *words]
    done = subprocess.run(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    say(f"$ medallion {' '.join(words)}")
    for line in done.stdout.splitlines()[-12 if words[0] != "plan" else -2 :]:
        print(f"    {line.replace(str(project), project.parent.name)[:220]}", flush=True)
    if done.returncode:
        raise SystemExit(f"medallion {' '.join(words)} ended with {done.returncode}: {done.stdout[-3_000:]}")


def key_of(table: str, row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key of a row."""
    return tuple(row[name] for name in KEYS[table])


def plain(values: Sequence[Any]) -> list[Any]:
    """Return values so that equal ones of the database and of the lake are equal."""
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value.startswith('{"a"'):
        return json.loads(value)
    return value


def count(log: Path) -> int:
    """Count the records of a log."""
    return sum(file.read_bytes().count(b"\n") for file in log.glob("*"))


def has(log: Path, text: str) -> bool:
    """Check whether some record has a text."""
    return any(text.encode() in file.read_bytes() for file in log.glob("*"))


def wait(what: str, ready: Callable[[], bool]) -> None:
    """Wait until something is so. Raises SystemExit where it does not become so."""
    until = time.monotonic() + _WAIT_SECONDS
    while not ready():
        if time.monotonic() > until:
            raise SystemExit(f"{what} did not come in {_WAIT_SECONDS} s")
        time.sleep(0.2)


def say(what: str) -> None:
    """Report a line."""
    print(what, flush=True)


if __name__ == "__main__":
    sys.exit(main())
