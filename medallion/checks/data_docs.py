"""Great Expectations' Data Docs: its own pages for every validation, on a bounded site that is readable offline.

Imports Great Expectations: see validation.py. Pages are built from the results that checks have left (docs_queue.py).
"""

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import great_expectations as gx
from great_expectations.data_context.data_context.ephemeral_data_context import EphemeralDataContext
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.data_context.types.resource_identifiers import ValidationResultIdentifier
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer

from medallion.checks.report_page import render_docs_index
from medallion.checks.result import Judged
from medallion.storage import files

KEPT = 100  # results, at least one per table and check: building the index reads each of them
_STYLE = Path(__file__).with_suffix(".css")


class EscapedResultsPageRenderer(ValidationResultsPageRenderer):
    """Great Expectations writes values into its pages as they are; data must stay data there too."""

    def render(self, validation_results: Any, suite_parameters: Any = None) -> Any:
        """Render the page of results whose every value is escaped."""
        for judged in validation_results.results:
            judged.result = _escape_texts(judged.result or _verdict_in_words(judged))
            judged.exception_info = _escape_texts(judged.exception_info)
        return super().render(validation_results, suite_parameters)


def _verdict_in_words(judged: Any) -> dict[str, Any]:
    """What to show of an expectation that was only asked for its verdict, where the page would have nothing to show."""
    if not judged.success:
        return {}
    tolerance = judged.expectation_config.kwargs.get("mostly", 1) < 1
    return {"observed_value": "passed, within its tolerance" if tolerance else "passed, no failed records"}


def _escape_texts(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, dict):
        return {name: _escape_texts(part) for name, part in value.items()}
    return [_escape_texts(part) for part in value] if isinstance(value, list | tuple) else value


def context(docs: Path | None = None) -> EphemeralDataContext:
    """A context in memory; with ``docs``, results and pages live there."""
    stores = InMemoryStoreBackendDefaults()
    if docs is not None:
        stores.stores[stores.validation_results_store_name]["store_backend"] = _files(docs / "results")
    stores.data_docs_sites = {} if docs is None else {"checks": _site(docs)}
    config = DataContextConfig(
        store_backend_defaults=stores, progress_bars=ProgressBarsConfig(globally=False), analytics_enabled=False
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _site(docs: Path) -> dict[str, Any]:
    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": _files(docs / "site"),
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "site_section_builders": {
            "profiling": "None",
            "validations": {"renderer": {"module_name": __name__, "class_name": EscapedResultsPageRenderer.__name__}},
        },
    }


def build(judged: Sequence[Judged], docs: Path) -> None:
    """Add the pages of ``judged`` to the site in ``docs``, oldest first, and write its index."""
    for result in judged:
        files.write_text((docs / "results").joinpath(*result.key).with_suffix(".json"), result.content)
    _prune(docs)
    site = context(docs)
    store: Any = site.validation_results_store  # whose identifiers carry no types
    identify: Any = ValidationResultIdentifier.from_tuple
    keys = [key for key in (identify(result.key) for result in judged) if store.has_key(key)]
    suites: dict[str, gx.ExpectationSuite] = {}
    for key in keys:
        name = key.expectation_suite_identifier.name
        expectations = [line.expectation_config.to_domain_obj() for line in store.get(key).results]
        for expectation in expectations:
            expectation.id = None  # it was part of the suite that was judged
        suites[name] = gx.ExpectationSuite(name, expectations=expectations)
    for suite in suites.values():
        site.suites.add(suite)
    pages = [*keys, *{key.expectation_suite_identifier for key in keys}]
    if pages:
        site.build_data_docs(resource_identifiers=pages, build_index=False)
    _write_index(docs)


def _write_index(docs: Path) -> None:
    """Make pages that are new readable offline, and list them all, newest first."""
    site, style = docs / "site", _STYLE.read_text(encoding="utf-8")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if (offline := _offline(text, style)) != text:
            files.write_text(page, offline)
    results = docs / "results"
    rows = []
    for file in sorted(results.glob("*/*/*/*.json"), key=lambda file: file.parent.name, reverse=True):
        suite, run, *_ = file.relative_to(results).parts
        page = (Path("validations") / file.relative_to(results)).with_suffix(".html")
        rows.append((suite, run, bool(json.loads(file.read_text(encoding="utf-8"))["success"]), str(page)))
    files.write_text(site / "index.html", render_docs_index(rows))


def _offline(page: str, style: str) -> str:
    """``page`` without its scripts and what it loads from public hosts, and with ``style`` in their place."""
    page = re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL)
    text, removed = re.subn(r"<(?:link|img)\b[^>]*https://[^>]*>|background: url\('https://[^)]*\)[^;]*;", "", page)
    return text.replace("<style>", f"<style>{style}</style>\n<style>", 1) if removed else page


def _files(folder: Path) -> dict[str, str]:
    return {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}


def _prune(docs: Path) -> None:
    """Remove all but the newest results, <suite>/<run name>/<run time>/<batch>, their pages, and what that empties."""
    results = docs / "results"
    newest_last = sorted(results.glob("*/*/*/*.json"), key=lambda file: file.parent.name)
    for stale in newest_last[:-KEPT]:
        page = docs / "site" / "validations" / stale.relative_to(results).with_suffix(".html")
        for file in (stale, page):
            file.unlink(missing_ok=True)
            for folder in (file.parent, file.parent.parent):
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()
