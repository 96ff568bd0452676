"""A PostgreSQL of its own with logical decoding, two tables, and transactions that change them in all ways."""

import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

# A note is stored beside its row, uncompressed: an update that leaves it alone does not write it to the log.
TABLES = """
    CREATE TABLE orders (
        id BIGINT PRIMARY KEY, customer TEXT NOT NULL, total NUMERIC(12,2), rate NUMERIC(18,9), ratio NUMERIC,
        placed_at TIMESTAMPTZ, shipped_at TIMESTAMP, day DATE, paid BOOLEAN, weight DOUBLE PRECISION, height REAL,
        quantity SMALLINT, note TEXT, photo BYTEA, tags TEXT[], doc JSONB
    );
    ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
    CREATE TABLE items (
        order_id BIGINT, line INT, product TEXT, price NUMERIC(10,2), PRIMARY KEY (order_id, line)
    );
"""
COLUMNS = {
    "orders": (
        "id, customer, total, rate, ratio, placed_at, shipped_at, day, paid, weight, height, quantity, note, photo,"
        " tags, doc"
    ),
    "items": "order_id, line, product, price",
}
_SUPERUSER = "postgres"  # the server runs as nobody else where this runs as root


class Shop:
    """Transactions over the two tables, chosen by a seed."""

    def __init__(self, connection: "psycopg.Connection[Any]", seed: int) -> None:
        self._connection, self._chance = connection, random.Random(seed)
        self._next = 1
        self.counts: dict[str, int] = {}

    def change(self, transactions: int) -> None:
        """Commit so many transactions of one to four changes."""
        kinds = [self._insert, self._insert, self._update, self._update, self._rename, self._delete, self._other_key]
        for _ in range(transactions):
            with self._connection.transaction(), self._connection.cursor() as cursor:
                for _ in range(self._chance.randint(1, 4)):
                    kind = self._chance.choice(kinds)
                    kind(cursor)
                    name = kind.__name__.strip("_")
                    self.counts[name] = self.counts.get(name, 0) + 1

    def _insert(self, cursor: Any) -> None:
        names = COLUMNS["orders"]
        cursor.execute(f"INSERT INTO orders ({names}) VALUES ({', '.join(['%s'] * 16)})", self._row(self._next))
        lines = [(self._next, line, f"p{line}", self._decimal(2)) for line in range(self._chance.randint(0, 3))]
        cursor.executemany(f"INSERT INTO items ({COLUMNS['items']}) VALUES (%s, %s, %s, %s)", lines)
        self._next += 1

    def _update(self, cursor: Any) -> None:
        _, customer, total, rate, ratio, placed, shipped, day, *_ = self._row(0)
        cursor.execute(  # the note stays, and is not logged
            "UPDATE orders SET customer = %s, total = %s, rate = %s, ratio = %s, placed_at = %s, shipped_at = %s,"
            " day = %s WHERE id = %s",
            (customer, total, rate, ratio, placed, shipped, day, self._some_id()),
        )
        cursor.execute("UPDATE items SET price = price + 0.01 WHERE order_id = %s", (self._some_id(),))

    def _rename(self, cursor: Any) -> None:
        cursor.execute("UPDATE orders SET note = %s WHERE id = %s", (self._text(6_000), self._some_id()))

    def _delete(self, cursor: Any) -> None:
        number = self._some_id()
        cursor.execute("DELETE FROM items WHERE order_id = %s", (number,))
        cursor.execute("DELETE FROM orders WHERE id = %s", (number,))

    def _other_key(self, cursor: Any) -> None:
        number = self._some_id()
        cursor.execute("UPDATE orders SET id = id + 1000000 WHERE id = %s AND id < 1000000", (number,))
        cursor.execute("UPDATE items SET line = line + 100 WHERE order_id = %s AND line < 100", (self._some_id(),))

    def _some_id(self) -> int:
        return self._chance.randrange(1, max(2, self._next))

    def _row(self, number: int) -> tuple[Any, ...]:
        chance = self._chance
        moment = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(microseconds=chance.randrange(10**15))
        row: list[Any] = [
            self._decimal(2),
            self._decimal(9),
            self._decimal(chance.randrange(6)),
            moment,
            moment.replace(tzinfo=None) - timedelta(days=20_000),
            date(1960, 1, 1) + timedelta(days=chance.randrange(40_000)),
            chance.random() < 0.5,
            chance.uniform(-1e9, 1e9),
            chance.randrange(1000) / 8,
            chance.randrange(-(2**15), 2**15),
            self._text(6_000),
            chance.randbytes(20),
            [self._text(3), None, "b"],
            '{"a": [1, 2.50, "x"]}',
        ]
        return (number, self._text(8), *(None if chance.random() < 0.15 else value for value in row))

    def _decimal(self, scale: int) -> Decimal:
        return Decimal(self._chance.randrange(-(10**7), 10**7)).scaleb(-scale)

    def _text(self, length: int) -> str:
        return "".join(self._chance.choices("abcdefghij klmnöü\"'\\\n", k=length))


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run a PostgreSQL until the block ends; yield how to connect to it, without a password on loopback."""
    programs = Path(max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=Path("initdb"))).parent
    folder.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    as_user = ["runuser", "-u", _SUPERUSER, "--"] if os.geteuid() == 0 else []
    if as_user:
        shutil.chown(folder, _SUPERUSER)
    data = folder / "data"
    log = folder / "log"

    def run(*command: object) -> None:
        words = [*as_user, *map(str, command)]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} failed: {done.stdout[-2_000:]}")

    run(programs / "initdb", "-D", data, "-U", _SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale", "C.UTF-8", "-N")
    options = f"-c wal_level=logical -c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    run(programs / "pg_ctl", "-D", data, "-l", log, "-w", "-o", options, "start")
    try:
        yield f"host=127.0.0.1 port={port} user={_SUPERUSER} dbname=postgres"
    finally:
        run(programs / "pg_ctl", "-D", data, "-m", "fast", "-w", "stop")


def rows(connection: "psycopg.Connection[Any]", table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table as it is now."""
    return connection.execute(f"SELECT {COLUMNS[table].replace('doc', 'doc::text')} FROM {table}").fetchall()
