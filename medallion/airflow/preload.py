"""The slow imports of tasks, loaded once in the process that Airflow forks its task workers from.

``[scheduler] mp_forkserver_preload`` names this module, with ``mp_start_method = forkserver``. None of these imports
starts a thread, which would not survive a fork.
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

# After Great Expectations, which loads its integration with pyspark if pyspark is loaded already.
import pyspark.sql.connect.session  # noqa: F401
import sqlglot.dialects.spark  # noqa: F401

import medallion.inspect.run_summary
import medallion.model.proof
import medallion.pipeline.steps  # noqa: F401

gc.freeze()  # the garbage collectors of tasks leave shared objects alone, instead of touching and so copying them
