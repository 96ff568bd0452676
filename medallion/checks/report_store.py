"""The folder of validation reports: a page and a JSON file per check, an index, and Great Expectations' Data Docs."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medallion.checks.report_page import render, render_index
from medallion.checks.result import CheckResult
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.s3 import S3Path

DATA_DOCS = "gx"
WAITING = "waiting"  # in it: results that have no page there yet
LISTED = 200  # checks on the index page
TREND = 15  # earlier checks beside each expectation


def write_report(result: CheckResult, folder: Place) -> Place:
    """Write the page of ``result``, its JSON beside it, and the index; return the page.

    Readers see whole files only, and a check that runs again under the same names replaces its own.
    """
    report = result.to_dict()
    page = folder / result.page
    files.write_text(page.with_suffix(".json"), json.dumps(report, indent=1, ensure_ascii=False))
    known = newest(folder, LISTED)
    before = [
        earlier
        for earlier in known
        if earlier["layer"] == report["layer"] and earlier["started_at"] < report["started_at"]
    ]
    files.write_text(page, render(report, before[:TREND]))
    files.write_text(folder / "index.html", render_index(known))
    return page


def newest(folder: Place, limit: int) -> list[dict[str, Any]]:
    """The results of the last ``limit`` checks as dictionaries, newest first."""
    pages = sorted(_candidates(folder, limit), key=lambda file: file.stat().st_mtime, reverse=True)
    results = [json.loads(text) for text in files.each(lambda file: file.read_text(encoding="utf-8"), pages[:limit])]
    return sorted(results, key=lambda result: str(result["started_at"]), reverse=True)


def prune(folder: Place, before: float) -> int:
    """Remove the pages and results of checks that ended before that moment (epoch seconds); how many checks."""
    stale = [file for file in folder.glob("*/*.json") if file.stat().st_mtime < before]
    for file in stale:
        file.with_suffix(".html").unlink(missing_ok=True)
        file.unlink()
        files.remove_if_empty(file.parent)
    if stale:
        write_index(folder)
    for waiting in (folder / DATA_DOCS / WAITING).glob("*.json"):
        if waiting.stat().st_mtime < before:
            waiting.unlink()
    return len(stale)


def write_index(folder: Place) -> None:
    """Write the page that lists the newest checks."""
    files.write_text(folder / "index.html", render_index(newest(folder, LISTED)))


def _candidates(folder: Place, limit: int) -> Iterator[Place]:
    """Result files, the last ``limit`` among them, without visiting years of folders: each check touches its own."""
    if isinstance(folder, S3Path):  # which has no folders, and tells the age of files as it lists them
        yield from folder.glob("*/*.json")
        return
    hours = [entry for entry in os.scandir(folder) if entry.is_dir() and entry.name != DATA_DOCS]
    for hour in sorted(hours, key=lambda entry: entry.stat().st_mtime, reverse=True)[:limit]:
        yield from Path(hour.path).glob("*.json")
