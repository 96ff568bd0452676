"""The types that Feldera's are compared with are those that Spark gives."""

import json
from pathlib import Path

from medallion.model.table import Table
from medallion.testing.table_tests import TableTests
from tests.shop import registry

SPARK_TYPES = Path(__file__).parents[1] / "unit" / "spark_types.json"


def test_the_checked_in_types_are_those_of_spark(table_tests: TableTests) -> None:
    found = {
        table.name: {field.name: field.dataType.simpleString() for field in table_tests.schema(table.name)}
        for table in registry()
        if isinstance(table, Table)
    }
    assert found == json.loads(SPARK_TYPES.read_text()), f"a type has changed: write {SPARK_TYPES.name} anew"
