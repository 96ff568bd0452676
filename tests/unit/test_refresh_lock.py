"""refresh.lock: what is proven once is not asked of Spark again, and what has changed is."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medallion.errors import MedallionError
from medallion.model import proof
from medallion.model.plan import Analysis, Column, NoPlans
from medallion.model.proven import Proof
from medallion.model.refresh_lock import NAME, lock_text, read_lock
from medallion.model.table import ByKey, Feed, Table
from medallion.pipeline import proven
from tests.shop import SHOP, registry

ORDERS = Feed(keys=("order_id",), schema="order_id BIGINT NOT NULL, status STRING", name="bronze_orders")
TABLE = Table(
    keys=("order_id",), query="SELECT * FROM {bronze_orders}", incremental=ByKey("order_id"), name="silver_orders"
)
COLUMNS = (("order_id", "bigint", False), ("status", "string", True))


class Asked(Exception):
    """Spark was asked."""


def ask(query: str, inputs: Mapping[str, tuple[Column, ...]]) -> Analysis:
    raise Asked(query)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "_PROVEN", {})
    monkeypatch.setattr(proof, "_ANALYSED", {})


def fingerprint(table: Table, feed: Feed = ORDERS) -> str:
    prover = proof.Prover({feed.name: feed, table.name: table}, ask)
    return prover._fingerprint(table, {name: prover.columns_of(name) for name in table.inputs})


def locked(table: Table) -> Proof:
    inputs = {"bronze_orders": COLUMNS}
    key = fingerprint(table)
    return Proof(
        table.name, key, table.fingerprint, table.refresh_method, COLUMNS, inputs, {"bronze_orders": "order_id"}
    )


def test_a_proof_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "refresh.lock"
    path.write_text(lock_text([locked(TABLE)]))
    assert read_lock(path) == {locked(TABLE).fingerprint: locked(TABLE)}
    assert read_lock(tmp_path / "none") == {}


def test_a_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "refresh.lock"
    path.write_text('{"table": "silver_x"}\n')
    with pytest.raises(MedallionError, match=r"refresh.lock, line 1, cannot be read .* medallion plan --write"):
        read_lock(path)


def test_spark_is_not_asked_of_what_is_locked() -> None:
    known = {locked(TABLE).fingerprint: locked(TABLE)}
    assert proof.prove([TABLE], {"bronze_orders": ORDERS}, ask, known) == {"silver_orders": locked(TABLE)}


@pytest.mark.parametrize(
    "changed",
    [
        {"query": "SELECT * FROM {bronze_orders} WHERE order_id > 1"},
        {"incremental": None},
        {"keys": ("status",)},
    ],
)
def test_spark_is_asked_again_of_a_table_that_has_changed(changed: dict[str, Any]) -> None:
    known = {locked(TABLE).fingerprint: locked(TABLE)}
    with pytest.raises(Asked):
        proof.prove([replace(TABLE, **changed)], {"bronze_orders": ORDERS}, ask, known)


@pytest.mark.parametrize("schema", ["order_id BIGINT NOT NULL", "status STRING, order_id BIGINT NOT NULL"])
def test_spark_is_asked_again_when_the_columns_of_an_input_have_changed(schema: str) -> None:
    known = {locked(TABLE).fingerprint: locked(TABLE)}
    with pytest.raises(Asked):
        proof.prove([TABLE], {"bronze_orders": replace(ORDERS, schema=schema)}, ask, known)


def test_a_table_that_only_spark_connect_could_prove_is_recomputed_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_session() -> Any:
        raise NoPlans("Spark Connect shows no plans: run medallion plan --write")

    found = proven.proofs_of([TABLE], {"bronze_orders": ORDERS}, no_session, {})["silver_orders"]
    assert "medallion plan --write" in found.unproven
    assert [name for name, _, _ in found.inputs["bronze_orders"]] == ["order_id", "status"], "as declared, all the same"


def test_the_lock_of_the_project_has_every_table_as_it_is() -> None:
    every = registry(extras=True)
    tables = [table for table in every if isinstance(table, Table)]
    known = read_lock(SHOP.root / NAME)
    assert proof.prove(tables, every.tables, ask, known).keys() == {table.name for table in tables}
    assert len(known) == len(tables)
