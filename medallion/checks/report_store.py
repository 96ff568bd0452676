"""The folder of validation reports: a page and a JSON file per check, an index, and Great Expectations' Data Docs."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from medallion.checks.report_page import is_summary, render, render_index, summarize
from medallion.checks.result import CheckResult
from medallion.errors import DamagedFile
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.s3 import S3Path

DATA_DOCS = "gx"
WAITING = "waiting"  # in it: results that have no page there yet
LISTED = 200  # checks on the index page
TREND = 15  # earlier checks beside each expectation
INDEX_PAGE = "index.html"
INDEX_LINES = "index.json"  # those of the page, so that a check need not read the results of all those before it
_MODIFIED = "modified"  # in a line: when its result was written, by which another result of the same name is noticed


def write_report(result: CheckResult, folder: Place) -> Place:
    """Write the page of ``result``, its JSON beside it, and the index; return the page.

    Readers see whole files only, and a check that runs again under the same names replaces its own.
    """
    report = result.to_dict()
    page = folder / result.page
    files.write_text(page.with_suffix(".json"), json.dumps(report, indent=1, ensure_ascii=False))
    lines = _index_lines(folder)
    earlier = [
        (folder / line["page"]).with_suffix(".json")
        for line in lines.values()
        if line["layer"] == report["layer"] and line["started_at"] < report["started_at"]
    ]
    files.write_text(page, render(report, files.each(_read, earlier[:TREND])))
    _write_index(folder, lines)
    return page


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
    _write_index(folder, _index_lines(folder))


def _write_index(folder: Place, lines: Mapping[str, Mapping[str, Any]]) -> None:
    files.write_json(folder / INDEX_LINES, lines)
    files.write_text(folder / INDEX_PAGE, render_index([*lines.values()]))


def _index_lines(folder: Place) -> dict[str, dict[str, Any]]:
    """Return what ``summarize`` says of the newest checks by name of their result, newest first.

    Only results that have no line in the last index are read: new ones, and those of a check that ran beside this one.
    """
    known, found = _known_lines(folder), {file: file.stat().st_mtime for file in _candidates(folder, LISTED)}
    listed = sorted(found, key=lambda file: found[file], reverse=True)[:LISTED]
    new = [file for file in listed if known.get(_name(file), {}).get(_MODIFIED) != found[file]]
    for file, result in zip(new, files.each(_read, new), strict=True):
        known[_name(file)] = {**summarize(result), _MODIFIED: found[file]}
    lines = {_name(file): known[_name(file)] for file in listed}
    return dict(sorted(lines.items(), key=lambda item: str(item[1]["started_at"]), reverse=True))


def _known_lines(folder: Place) -> dict[str, dict[str, Any]]:
    """Return the lines of the last index by name of the result, without those that are damaged or of another kind."""
    with suppress(DamagedFile):
        known = files.read_json(folder / INDEX_LINES) or {}
        return {name: line for name, line in known.items() if isinstance(line, dict) and is_summary(line)}
    return {}


def _name(file: Place) -> str:
    return f"{file.parent.name}/{file.name}"


def _read(file: Place) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return result


def _candidates(folder: Place, limit: int) -> Iterator[Place]:
    """Result files, the last ``limit`` among them, without visiting years of folders: each check touches its own."""
    if isinstance(folder, S3Path):  # which has no folders, and tells the age of files as it lists them
        yield from folder.glob("*/*.json")
        return
    hours = [entry for entry in os.scandir(folder) if entry.is_dir() and entry.name != DATA_DOCS]
    for hour in sorted(hours, key=lambda entry: entry.stat().st_mtime, reverse=True)[:limit]:
        yield from Path(hour.path).glob("*.json")
