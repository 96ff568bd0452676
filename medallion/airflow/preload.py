"""What tasks import that takes seconds, loaded once in the process that Airflow forks its task workers from.

Named in ``[scheduler] mp_forkserver_preload``, with ``mp_start_method = forkserver``. None of it starts a thread.
"""

import gc

import boto3  # noqa: F401
import deltalake  # noqa: F401
import duckdb  # noqa: F401
import pyarrow.dataset  # noqa: F401

import medallion.airflow.landing
import medallion.checks.checkpoint
from medallion.checks.lean_imports import lean_imports

with lean_imports():
    import medallion.checks.data_docs
    import medallion.checks.validation

# After Great Expectations, which would load its own integration with pyspark as well.
import pyspark.sql.connect.session  # noqa: F401
import sqlglot.dialects.spark  # noqa: F401

import medallion.inspect.run_summary
import medallion.model.proof
import medallion.pipeline.steps  # noqa: F401

gc.freeze()  # no task's garbage collector looks at, and so copies, what all of them share
