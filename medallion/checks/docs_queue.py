"""Results of checks that wait for their Data Docs: a file per check, written in the hour, built into pages after it."""

import json
from collections.abc import Sequence

from medallion.checks.lean_imports import lean_imports
from medallion.checks.report_store import DATA_DOCS, WAITING
from medallion.checks.result import Judged
from medallion.errors import one_line
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.mirrored_folder import mirrored

MAX_WAITING = 20  # checks: of more, the oldest get no pages


def keep_for_docs(judged: Sequence[Judged], reports: Place, name: str) -> None:
    """Queue the results of one check for the next build of Data Docs. name: of the check, as part of a file name."""
    if judged:
        content = json.dumps([[list(result.key), result.content] for result in judged])
        files.write_text(_queue(reports) / f"{name}.json", content)


def build_data_docs(reports: Place) -> str | None:
    """Build the pages of all results that wait; return why that failed, as it changes no verdict."""
    try:
        if not any(True for _ in _queue(reports).glob("*.json")):
            return None
        with lean_imports():
            from medallion.checks import data_docs, validation  # takes seconds; the latter knows our expectations
        with mirrored(reports / DATA_DOCS) as here, validation.quiet():  # it keeps pages on a disk alone
            waiting = sorted((here / WAITING).glob("*.json"), key=lambda file: file.stat().st_mtime)
            for file in waiting[:-MAX_WAITING]:
                file.unlink()
            judged = [result for file in waiting[-MAX_WAITING:] for result in _read(file)]
            data_docs.build(judged, here)
            for file in waiting[-MAX_WAITING:]:
                file.unlink()
    except Exception as error:
        return one_line(error)
    return None


def _read(file: Place) -> list[Judged]:
    return [Judged(tuple(key), content) for key, content in json.loads(file.read_text(encoding="utf-8"))]


def _queue(reports: Place) -> Place:
    return reports / DATA_DOCS / WAITING
