"""A new project that passes its tests at once: two feeds, two tables, a promise, tests, DAGs, a small source."""

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from medallion.cli.new_sources import NEW_SOURCES, Change, NewSource
from medallion.errors import UsageError
from medallion.project import find_template
from medallion.settings import Settings

_FIRST = datetime(2025, 11, 30, tzinfo=UTC)  # the first hour of changes; the snapshot is older
_HOURS, _DAYS = 3, 7
_DISTRICTS = ("harbour", "old town", "university")
_RENAMED = {"gitignore": ".gitignore", "airflowignore": ".airflowignore"}  # packages leave out hidden files


@click.command()
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--format",
    "form",
    type=click.Choice([*NEW_SOURCES]),
    default="insert_delete",
    show_default=True,
    help="How its source delivers changes: as yours does.",
)
def init(target: Path, form: str) -> None:
    """Make a new project in DIR, which must be empty or not exist yet. Then:

    \b
      cd DIR && medallion load && medallion refresh && pytest

    It has two feeds, a Silver and a Gold table, a promise between them, tests, DAGs, and a source of a week and three
    hours. Replace its tables with your own, one at a time.
    """
    try:
        if target.exists() and any(path.name != ".git" for path in target.iterdir()):
            raise UsageError(f"{target} is not empty: name a new folder")
        name = _name_of(target)
        Settings(lake=str(target.absolute() / "lake"))
        write_project(target, name, NEW_SOURCES[form])
    except ValidationError as error:  # a folder that Delta's readers could not open
        raise UsageError(f"{target} cannot be a project's folder: {error.errors()[0]['ctx']['error']}") from None
    except OSError as error:
        raise UsageError(f"{target} cannot be made: {error.strerror or error}") from None
    then = f"cd {shlex.quote(str(target))} && medallion load && medallion refresh && pytest"
    click.echo(f"{target}: project {name}; now: {then}")


def write_project(target: Path, name: str, delivery: NewSource) -> None:
    """Write a new project called ``name`` to ``target``: the template, and a source in the format of ``delivery``."""
    template = find_template()
    for file in sorted(template.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            place = target / file.relative_to(template)
            place = place.with_name(_RENAMED.get(place.name, place.name))
            place.parent.mkdir(parents=True, exist_ok=True)
            text = file.read_text(encoding="utf-8")
            place.write_text(text.replace("NAME", name) if file.suffix in {".toml", ".md"} else text, encoding="utf-8")
    _say_delivery(target / "medallion.toml", delivery)
    _write_source(target / "source", delivery)


def _say_delivery(manifest: Path, delivery: NewSource) -> None:
    """Add the settings of ``delivery`` that are not defaults to the section [source] of the manifest."""
    lines = manifest.read_text(encoding="utf-8").splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("path = ")) + 1
    manifest.write_text("".join([*lines[:at], *(f"{line}\n" for line in delivery.manifest), *lines[at:]]), "utf-8")


def _name_of(target: Path) -> str:
    name = re.sub(r"[^a-z0-9]+", "_", target.resolve().name.lower()).strip("_")[:40]
    return name if re.match(r"[a-z]", name) else f"project_{name}"[:40].rstrip("_")


def _write_source(folder: Path, delivery: NewSource) -> None:
    """Write a snapshot of a week of trips and three hours of changes, with the same content every time."""
    import pyarrow as pa

    stations = [
        {"station_id": n, "station_name": f"Station {n}", "district": _DISTRICTS[n % 3], "updated_at": _FIRST}
        for n in range(1, 7)
    ]
    number, text, moment = pa.int64(), pa.string(), pa.timestamp("us", "UTC")
    station = {"station_id": number, "station_name": text, "district": text, "updated_at": moment}
    trip = {"trip_id": number, "station_id": number, "started_at": moment, "minutes": pa.int32()}
    trip |= {"fare": pa.decimal128(8, 2), "updated_at": moment}
    schemas = {"stations": pa.schema(station), "trips": pa.schema(trip)}
    rows = {"stations": stations, "trips": [*_trips(1, _FIRST - timedelta(days=_DAYS), _DAYS * 24, every=3)]}
    for feed, schema in schemas.items():
        delivery.write_snapshot(folder, feed, pa.Table.from_pylist(rows[feed], schema))
    for later in range(_HOURS):
        start = _FIRST + timedelta(hours=later)
        inserts: list[Change] = [(None, row) for row in _trips(1001 + 10 * later, start, 1, every=1)]
        former = rows["trips"][later]
        corrected = former | {"minutes": former["minutes"] + 5, "updated_at": start + timedelta(minutes=50)}
        delivery.write_changes(folder, "trips", start, [*inserts, (former, corrected)])
    moved = stations[0] | {"district": "university", "updated_at": _FIRST + timedelta(hours=1, minutes=30)}
    delivery.write_changes(folder, "stations", _FIRST + timedelta(hours=1), [(stations[0], moved)])


def _trips(first: int, start: datetime, hours: int, every: int) -> Iterator[dict[str, Any]]:
    """Yield ten trips in every ``every``-th of the ``hours`` hours from ``start``, with ids from ``first`` on."""
    from decimal import Decimal

    for hour in range(0, hours, every):
        for n in range(10):
            number = first + hour // every * 10 + n
            at = start + timedelta(hours=hour, minutes=5 * n)
            minutes = 4 + number * 7 % 40
            yield {
                "trip_id": number,
                "station_id": 1 + number % 7,  # the seventh station does not exist
                "started_at": at,
                "minutes": minutes,
                "fare": Decimal(100 + 5 * minutes) / 100,
                "updated_at": at + timedelta(minutes=minutes),
            }
