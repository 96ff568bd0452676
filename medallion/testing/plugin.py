"""What pytest loads: ``run`` gives the rows that a table's query makes of literal ones; and what it stands on."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from medallion.project import Project
    from medallion.testing.table_tests import Run, TableTests


def _project(config: pytest.Config) -> "Project":
    """Return the project that a command would take where pytest was started."""
    from medallion.project import find_project

    return find_project(config.invocation_params.dir)


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> "Iterator[SparkSession]":
    """Yield a session of the project on two cores, without what a handful of rows does not need."""
    from medallion.spark import own_jvm
    from medallion.spark.session import spark_session

    project = _project(pytestconfig)
    settings = project.settings().replace(spark_master="local[2]", spark_connect=None, driver_memory="1g")
    with project.entered():
        session = spark_session(settings, "tests")
    session.conf.set("spark.sql.adaptive.enabled", False)
    session.conf.set("spark.sql.shuffle.partitions", 2)
    yield session
    own_jvm.end_jvm()


@pytest.fixture(scope="session")
def row_defaults() -> Mapping[str, Any]:
    """Return what a row has in columns that its test does not state: nothing, unless a project says otherwise."""
    return {}


@pytest.fixture(scope="session")
def table_tests(pytestconfig: pytest.Config, spark: "SparkSession", row_defaults: Mapping[str, Any]) -> "TableTests":
    """Return what runs the queries of the project's tables, extra ones included."""
    from medallion.testing.table_tests import TableTests

    return TableTests(spark, _project(pytestconfig).registry(extras=True), row_defaults)


@pytest.fixture(scope="session")
def run(table_tests: "TableTests") -> "Run":
    """Return ``run(table, input=[rows]).gives(columns, *rows)``."""
    return table_tests.run
