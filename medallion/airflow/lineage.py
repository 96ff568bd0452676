"""OpenLineage in Airflow: its provider sends runs of DAGs and tasks, the steps their tables as children of these."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from medallion.inspect.openlineage import PARENT, is_enabled


def parent_of_tables(ti: Any) -> dict[str, str]:
    """Return the variable that names a task to what it runs; nothing where no lineage is sent."""
    if not is_enabled():
        return {}
    try:
        from airflow.providers.openlineage.plugins.macros import lineage_parent_id

        return {PARENT: lineage_parent_id(ti)}
    except Exception:  # whatever the provider lacks: lineage costs no run
        logging.getLogger(__name__).exception("the tables of this task have no parent in the lineage")
        return {}


@contextmanager
def as_parent(ti: Any) -> Iterator[None]:
    """Have the tables of the steps in the block be children of the task that runs them."""
    os.environ.update(parent_of_tables(ti))
    try:
        yield
    finally:
        os.environ.pop(PARENT, None)
