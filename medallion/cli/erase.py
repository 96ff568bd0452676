"""medallion erase: remove persons from every byte of the lake, and prove it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medallion.cli.common import (
    HOUR,
    STRATEGY,
    current_tables,
    loaded_lake,
    new_run_id,
    open_driver,
    print_lines,
    settings,
)
from medallion.errors import MedallionError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command()
@click.option("--subject", "subjects", multiple=True, help="Whom to erase; may be given several times.")
@click.option(
    "--subject-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="A file with one subject on each line, - for standard input: no list of processes shows it.",
)
@click.option("--value", "values", multiple=True, help="A further text that is theirs alone, such as an address.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@click.option("--verify", is_flag=True, help="Read every byte of the lake and say where they are; 1 where they are.")
@click.option("--lift", type=HOUR, help="Take rows about them again, from this hour on.")
@click.option("--force", is_flag=True, help="Drop releases with their rows even if they are held by name.")
@click.option("--strategy", type=STRATEGY, default="incremental", show_default=True, help="As for medallion refresh.")
def erase(
    subjects: tuple[str, ...],
    subject_file: Path | None,
    values: tuple[str, ...],
    dry_run: bool,
    verify: bool,
    lift: str | None,
    force: bool,
    strategy: str,
) -> None:
    """Erase persons: their rows, all history that has them, and what would bring them back.

    Feeds declare whom a row is about, as subject=. Rows about the persons are deleted from Bronze in one change; Silver
    and Gold are refreshed, checked and published. Then releases, versions, landed files, quarantine, events and reports
    that contain the persons are removed. Rows about them that arrive later are dropped when they land. An erasure that
    was interrupted is finished by the next one, or by this command without a subject. The certificate is in
    <lake>/reports/erasures.

    \b
      medallion erase --subject-file persons.txt --dry-run
      medallion erase --subject-file persons.txt
      medallion erase --subject-file persons.txt --verify --value x@example.com
    """
    from medallion.ingest.needles import MIN_LENGTH

    if short := [value for value in values if len(value.strip()) < MIN_LENGTH]:
        raise UsageError(f"--value is too short to mean one person: {len(short[0])} characters, not {MIN_LENGTH}")
    if dry_run + verify + bool(lift) > 1:
        raise UsageError("give one of --dry-run, --verify and --lift")
    wanted = [*subjects, *_subjects_in(subject_file)]
    loaded_lake()
    if (dry_run or lift) and not wanted:
        raise UsageError("name whom: --subject, or --subject-file with one on each line")
    if verify:
        _verify(wanted, values)
    elif dry_run:
        _forecast(wanted, values)
    else:
        _erase(wanted, values, lift, strategy, force=force)


def _subjects_in(file: Path | None) -> list[str]:
    """Return the subjects in a file, one on each line. Raises UsageError, which quotes no subject."""
    from medallion.ingest.erased_subjects import subjects_in

    if file is None:
        return []
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{file} cannot be read as a text in UTF-8") from None
    if not (subjects := subjects_in(text)):
        raise UsageError(f"{file} names no subject: it has one on each line")
    return subjects


def _erase(subjects: "Sequence[str]", values: "Sequence[str]", lift: str | None, strategy: str, *, force: bool) -> None:
    from medallion.pipeline import erasure
    from medallion.pipeline.run import Run

    with open_driver() as driver:
        run = Run(driver.settings, None, new_run_id("erase"), strategy=strategy)
        if lift is not None:
            erasure.lift(run, driver, subjects, lift)
            return
        _, done = erasure.erase(run, driver, subjects, values, force=force)
    if done.left:
        raise MedallionError(
            f"{len(done.left)} files could not be reached, such as {done.left[0]}: see the certificate"
        )


def _verify(subjects: "Sequence[str]", values: "Sequence[str]") -> None:
    from medallion.ingest.erased_subjects import parse_subjects
    from medallion.ingest.needles import Needles
    from medallion.inspect.person import Person
    from medallion.inspect.verify_erased import names_of_subjects, traces

    if not subjects and not values:
        raise UsageError("name whom to look for: --subject, --subject-file or --value")
    tables = current_tables()
    known = parse_subjects(tables, subjects) if subjects else []
    person = Person(frozenset(known), frozenset(names_of_subjects(tables)), Needles.of(values))
    count = 0
    for trace in traces(loaded_lake(), tables, person):
        count += 1
        click.echo(f"{trace.path}: {trace.where}")
    if count:
        raise MedallionError(f"they are found in {count:,} files of {settings().lake}")
    click.echo(f"nothing of them is found in {settings().lake}: every file was read")


def _forecast(subjects: "Sequence[str]", values: "Sequence[str]") -> None:
    from medallion.pipeline.erase_forecast import forecast

    print_lines(forecast(loaded_lake(), current_tables(), subjects, values, settings().source).lines())
