"""What pytest loads: ``run`` gives the rows that a table's query makes of literal ones; and what it stands on."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from medallion.testing.table_tests import Run, TableTests


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> "Iterator[SparkSession]":
    """Yield a session of the project on two cores, without what a handful of rows does not need."""
    from medallion.project import find_project, project_above
    from medallion.spark import own_jvm
    from medallion.spark.session import spark_session

    project = project_above(pytestconfig.rootpath) or find_project()
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
    from medallion.project import find_project, project_above
    from medallion.testing.table_tests import TableTests

    project = project_above(pytestconfig.rootpath) or find_project()
    return TableTests(spark, project.registry(extras=True), row_defaults)


@pytest.fixture(scope="session")
def run(table_tests: "TableTests") -> "Run":
    """Return ``run(table, input=[rows]).gives(columns, *rows)``."""
    return table_tests.run
