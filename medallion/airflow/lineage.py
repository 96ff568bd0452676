"""OpenLineage in Airflow: the provider reports DAG and task runs; steps report their tables as children of these."""

import logging
from typing import Any

from medallion.inspect.openlineage import is_enabled


def lineage_parent(ti: Any) -> str | None:
    """Return the OpenLineage id of a task, the parent of the steps that it runs; None if no lineage is sent."""
    if not is_enabled():
        return None
    try:
        from airflow.providers.openlineage.plugins.macros import lineage_parent_id

        return str(lineage_parent_id(ti))
    except Exception:  # a failing provider must not fail the run
        logging.getLogger(__name__).exception("the tables of this task have no parent in the lineage")
        return None
