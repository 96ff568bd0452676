"""The command that writes the source: ``medallion source generate``."""

import json
import shutil
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from medallion.errors import UsageError

BATCH_ROWS = 100_000  # rows that are written at a time, so that memory does not grow with the scale
FIRST = datetime(2025, 11, 30, tzinfo=UTC)  # the hour of the first changes


@click.command()
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--scale", default=0.01, show_default=True, help="TPC-H's scale factor: 1 is a gigabyte.")
@click.option("--hours", default=3, show_default=True, help="Hours of changes after the snapshot.")
@click.option("--catalogue/--no-catalogue", default=True, help="Whether customers, parts and stocks change too.")
@click.option("--force", is_flag=True, help="Replace what DIR holds.")
def generate(target: Path, scale: float, hours: int, catalogue: bool, force: bool) -> None:
    """Write the tables of TPC-H to DIR as a snapshot, and hours of changes. The same arguments give the same rows."""
    if scale <= 0 or hours < 0:
        raise UsageError(f"--scale {scale:g} --hours {hours} make no source: give more than 0, and 0 or more")
    if target.exists() and any(target.iterdir()):
        if not force:
            raise UsageError(f"{target} is not empty: name a new folder, or replace it with --force")
        shutil.rmtree(target)
    rows = write_source(target, scale, hours, catalogue)
    click.echo(f"{target}: {rows:,} rows, {hours} hours of changes from {FIRST:%Y-%m-%dT%H}")


def write_source(target: Path, scale: float, hours: int, catalogue: bool = True) -> int:
    """Write snapshot and changes to ``target``; return the rows of the snapshot."""
    from deltalake import write_deltalake

    from tpch_source.data import TABLES, change_hour, tpch

    rows = 0
    with tpch(scale) as connection:
        for table in TABLES:
            (count,) = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone() or (0,)
            rows += count
            (target / "snapshot").mkdir(parents=True, exist_ok=True)
            batches = connection.execute(f"FROM {table}").to_arrow_reader(BATCH_ROWS)
            write_deltalake(str(target / "snapshot" / f"bronze_{table}"), batches)
        for number in range(1, hours + 1):
            hour = FIRST + timedelta(hours=number - 1)
            for table, changes in change_hour(connection, number, catalogue).items():
                file = target / "cdc" / table / f"{hour:%Y-%m-%dT%H}.json"
                file.parent.mkdir(parents=True, exist_ok=True)
                lines = (json.dumps({kind: row}, default=_as_json) for kind, row in changes)
                file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return rows


def _as_json(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    assert isinstance(value, date)
    return value.isoformat()


COMMANDS = (generate,)
