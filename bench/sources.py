"""The sources and loaded lakes that the drivers of a comparison copy."""

import shutil
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from bench.machine import commit
from bench.plan import CATALOGUE, FIRST_HOUR, Plan, hours_of
from bench.source_formats import source_in_format
from demo.generate import generate
from medallion.errors import MedallionError
from medallion.hours import next_hour
from medallion.pipeline import operations
from medallion.pipeline.driver import open_driver
from medallion.pipeline.run import Run
from medallion.settings import Settings
from medallion.storage.files import read_json, write_json

_WRITTEN = 0.6  # of the bytes of a lake, by an hour that recomputes all


def prepare(plan: Plan, settings: Settings, work: Path, days: int, change: float = 1.0) -> Settings:
    """The settings of a lake in ``work`` that holds the snapshot, for all to copy, and of a source with the changes.

    A lake that is there is used if the same code loaded it from the same snapshot: another's would be brought up to
    date in the hours that are measured.
    """
    source = work / f"source-{days}"
    generate(source, days=days, hours=int(max(1, change) * plan.all_hours) + 1, scale=plan.scale, seed=plan.seed)
    loaded = settings.replace(lake=str(work / f"loaded-{days}"), source=str(source))
    origin, origin_file = {"commit": commit(), "scale": plan.scale, "seed": plan.seed}, work / f"loaded-{days}.json"
    if read_json(origin_file) != origin:
        origin_file.unlink(missing_ok=True)
        shutil.rmtree(loaded.lake, ignore_errors=True)
        load_lake(loaded)
        write_json(origin_file, origin)
    changes = source_with_changes(source, change, plan.all_hours, plan.catalogue)
    return loaded.replace(source=str(source_in_format(changes, plan.source_format)))


def source_with_changes(source: Path, change: float, hours: int, catalogue: bool = True) -> Path:
    """A source whose hours have ``change`` times the usual lines.

    Those of several hours are delivered in the last of them; of less than one, its first part. catalogue: with the
    changes of customers, products and suppliers.
    """
    if change == 1 and catalogue:
        return source
    target = source.with_name(f"{source.name}-x{change:g}{'' if catalogue else '-orders'}")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    (target / "snapshot").symlink_to(source / "snapshot")
    for folder in sorted((source / "cdc").iterdir()):
        if not catalogue and folder.name in CATALOGUE:
            continue
        (target / "cdc" / folder.name).mkdir(parents=True)
        whole = FIRST_HOUR
        for hour in hours_of(change, hours):
            lines: list[bytes] = []
            for _ in range(max(1, int(change))):
                file = folder / f"{whole}.json"
                lines += file.read_bytes().splitlines(keepends=True) if file.exists() else []
                whole = next_hour(whole)
            if change < 1:
                lines = list(islice(lines, int(len(lines) * change)))
            if lines:
                (target / "cdc" / folder.name / f"{hour}.json").write_bytes(b"".join(lines))
    return target


def require_room(plan: Plan, lake: int, work: Path) -> None:
    """Raises MedallionError when ``work`` cannot take the copies of a lake of so many bytes, and what comes to them."""
    needed = int(lake * len(plan.strategies) * (1 + _WRITTEN * plan.all_hours))
    free = shutil.disk_usage(work).free
    if needed > free:
        raise MedallionError(
            f"{work} has {free / 1e9:.0f} GB free, and this round may take {needed / 1e9:.0f}: choose another --work,"
            " or fewer --days, --hours or --strategies"
        )


def load_lake(settings: Settings) -> None:
    process = get_context("spawn").Process(target=_load_here, args=(settings,))
    process.start()
    process.join()
    if process.exitcode:
        raise MedallionError(f"{settings.lake} could not be loaded: see above")


def _load_here(settings: Settings) -> None:
    with open_driver(settings, report=lambda _: None) as driver:
        operations.load(Run(settings, None, "bench-load"), driver)


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
