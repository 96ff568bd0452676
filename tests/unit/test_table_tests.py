"""Every table that is computed has a test over literal rows."""

from pathlib import Path

from medallion.model.table import Table
from tests.shop import registry

SPARK_TESTS = Path(__file__).parents[1] / "spark"


def test_every_computed_table_has_a_test_over_literal_rows() -> None:
    tests = "".join(file.read_text() for file in SPARK_TESTS.glob("test_*.py"))

    untested = [
        table.name for table in registry(extras=True) if isinstance(table, Table) and f'"{table.name}"' not in tests
    ]

    # a table of dropped rows is tested with the expectation that drops them
    assert [name for name in untested if "quarantine" not in name] == []
