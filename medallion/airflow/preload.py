"""What tasks import that takes seconds, loaded once in the process that Airflow forks its task workers from.

Named in ``[scheduler] mp_forkserver_preload``, with ``mp_start_method = forkserver``. None of it starts a thread.
"""

import boto3  # noqa: F401
import deltalake  # noqa: F401
import duckdb  # noqa: F401
import pyarrow.dataset  # noqa: F401

import medallion.airflow.tasks
import medallion.checks.checkpoint
from medallion.checks.lean_imports import lean_imports

with lean_imports():
    import medallion.checks.validation  # noqa: F401
