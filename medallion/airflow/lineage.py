"""OpenLineage in Airflow: its provider sends runs of DAGs and tasks, the steps their tables as children of these."""

import logging
from typing import Any

from medallion.inspect.openlineage import is_enabled


def lineage_parent(ti: Any) -> str | None:
    """Return the name of a task as the parent of what it runs; None where no lineage is sent."""
    if not is_enabled():
        return None
    try:
        from airflow.providers.openlineage.plugins.macros import lineage_parent_id

        return str(lineage_parent_id(ti))
    except Exception:  # whatever the provider lacks: lineage costs no run
        logging.getLogger(__name__).exception("the tables of this task have no parent in the lineage")
        return None
