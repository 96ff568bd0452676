"""Great Expectations' Data Docs: its own pages for every validation, on a bounded site.

Imports Great Expectations: see validation.py.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read on import

import great_expectations as gx
from great_expectations.data_context.data_context.ephemeral_data_context import EphemeralDataContext
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.data_context.types.resource_identifiers import ValidationResultIdentifier

from expectations.lake_views import one_line

KEPT = 200  # results, at least one per table and check: building the index reads each of them


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
            "site_section_builders": {"profiling": "None"},
        }
    }
    config = DataContextConfig(store_backend_defaults=stores, progress_bars=ProgressBarsConfig(globally=False))
    return gx.get_context(mode="ephemeral", project_config=config)


def publish(context: EphemeralDataContext, results: Collection[ValidationResultIdentifier], docs: Path) -> str | None:
    """Build the pages of ``results`` and the index; returns the error if that fails, as it changes no verdict.

    Once per check: an UpdateDataDocsAction would build the index anew for each table.
    """
    try:
        _prune(docs / "results")
        _prune(docs / "site" / "validations")
        suites = {result.expectation_suite_identifier for result in results}
        pages: list[Any] = [*results, *suites]
        context.build_data_docs(resource_identifiers=pages)
    except Exception as error:
        return one_line(error)
    return None


def _files(folder: Path) -> dict[str, str]:
    return {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}


def _prune(folder: Path) -> None:
    """Remove all but the newest files of <suite>/<run name>/<run time>/<batch>, and the folders that empties."""
    newest_last = sorted(folder.glob("*/*/*/*"), key=lambda file: file.parent.name)
    for stale in newest_last[:-KEPT]:
        stale.unlink()
        for parent in (stale.parent, stale.parent.parent):
            if not any(parent.iterdir()):
                parent.rmdir()
