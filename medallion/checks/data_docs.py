"""Great Expectations' Data Docs: its own pages for every validation, on a bounded site.

Imports Great Expectations: see validation.py.
"""

from collections.abc import Collection
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

from medallion.errors import one_line

KEPT = 100  # results, at least one per table and check: building the index reads each of them


class EscapedResultsPageRenderer(ValidationResultsPageRenderer):
    """Great Expectations writes values into its pages as they are; data must stay data there too."""

    def render(self, validation_results: Any, suite_parameters: Any = None) -> Any:
        """The page of results whose every value is escaped."""
        for judged in validation_results.results:
            judged.result = _escaped(judged.result)
            judged.exception_info = _escaped(judged.exception_info)
        return super().render(validation_results, suite_parameters)


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, dict):
        return {name: _escaped(part) for name, part in value.items()}
    return [_escaped(part) for part in value] if isinstance(value, list | tuple) else value


def context(docs: Path) -> EphemeralDataContext:
    """A context whose suites live in memory and whose results and pages live in ``docs``."""
    stores = InMemoryStoreBackendDefaults()
    stores.stores[stores.validation_results_store_name]["store_backend"] = _files(docs / "results")
    stores.data_docs_sites = {
        "checks": {
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "store_backend": _files(docs / "site"),
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "site_section_builders": {
                "profiling": "None",
                "validations": {
                    "renderer": {"module_name": __name__, "class_name": EscapedResultsPageRenderer.__name__}
                },
            },
        }
    }
    config = DataContextConfig(
        store_backend_defaults=stores, progress_bars=ProgressBarsConfig(globally=False), analytics_enabled=False
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def publish(context: EphemeralDataContext, results: Collection[ValidationResultIdentifier], docs: Path) -> str | None:
    """Build the pages of ``results`` and the index; returns the error if that fails, as it changes no verdict.

    Once per check: an UpdateDataDocsAction would build the index anew for each table.
    """
    try:
        _prune(docs)
        suites = {result.expectation_suite_identifier for result in results}
        pages: list[Any] = [*results, *suites]
        context.build_data_docs(resource_identifiers=pages)
    except Exception as error:
        return one_line(error)
    return None


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
