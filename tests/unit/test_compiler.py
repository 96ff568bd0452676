"""A driver for little data is compiled quickly; one for much is compiled well."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion import Table
from medallion.settings import Settings
from medallion.spark import compiler
from medallion.spark.compiler import QUICK_COMPILER, compiler_options
from medallion.storage.lake import Lake

LOCAL = "local[2]"
ORDERS = Table(keys=("order_id",), query="SELECT order_id FROM {bronze_orders}", name="silver_orders")
JOINED = Table(
    keys=("order_id",), query="SELECT o.order_id FROM {bronze_orders} AS o JOIN {bronze_items} AS i", name="silver_all"
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(lake=str(tmp_path))
    write_deltalake(Lake.of(settings).path("bronze_orders"), pa.table({"order_id": [1, 2]}))
    return settings


def test_compiler_is_the_quick_one_when_little_is_read(settings: Settings) -> None:
    assert compiler_options(settings, LOCAL, [ORDERS, JOINED], "full") == QUICK_COMPILER


def test_compiler_is_the_default_when_much_is_read(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "MAX_QUICK_BYTES", 10)
    assert compiler_options(settings, LOCAL, [ORDERS], "full") == ""


def test_compiler_is_the_quick_one_when_little_changes(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "MAX_QUICK_BYTES", 10)
    assert compiler_options(settings, LOCAL, [ORDERS], "incremental") == QUICK_COMPILER


def test_compiler_is_the_default_when_an_input_cannot_be_read(settings: Settings) -> None:
    Path(Lake.of(settings).path("bronze_orders"), "_delta_log", f"{0:020}.json").write_text("{")
    assert compiler_options(settings, LOCAL, [ORDERS], "full") == ""


def test_compiler_is_the_default_when_others_do_the_work(settings: Settings) -> None:
    assert compiler_options(settings, "spark://master:7077", [ORDERS], "incremental") == ""
