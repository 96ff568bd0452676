"""refresh.lock: what is derived and proven once is not asked of Spark again, and what has changed is."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from medallion.derive.project import graph_of
from medallion.errors import MedallionError
from medallion.model import proof
from medallion.model.definition import definition_keys
from medallion.model.methods import Additive, ByKey, Full, Method, Recent, Via
from medallion.model.plan import Analysis, Column, NoPlans
from medallion.model.proven import Proof
from medallion.model.refresh_lock import NAME, Entry, _seal, is_derived_from, lock_text, read_lock, with_methods
from medallion.model.registry import Registry
from medallion.model.table import Feed, Table
from medallion.pipeline import proven
from tests.shop import SHOP, build, registry

ORDERS = Feed(
    keys=("order_id",), schema="order_id BIGINT NOT NULL, status STRING", name="bronze_orders", doc="One row per order."
)
TABLE = Table(keys=("order_id",), query="SELECT * FROM {bronze_orders}", name="silver_orders", doc="One row per order.")
READER = Table(
    keys=("order_id",),
    query="SELECT order_id FROM {silver_orders}",
    name="gold_orders",
    layer="gold",
    doc="One row per order.",
)
BY_ORDER = ByKey("order_id", {}, {"bronze_orders": "order_id"})
COLUMNS = (("order_id", "bigint", False), ("status", "string", True))


class Asked(Exception):
    """Spark was asked."""


def ask(
    query: str, inputs: Mapping[str, tuple[Column, ...]], /, *, same_as: str = "", optimize: bool = False
) -> Analysis:
    raise Asked(query)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "_PROVEN", {})
    monkeypatch.setattr(proof, "_ANALYSED", {})


def fingerprint(table: Table) -> str:
    prover = proof.Prover({ORDERS.name: ORDERS, table.name: table}, ask)
    return prover._proof_key(table, {name: prover.columns_of(name) for name in table.inputs})


def entry(method: Method = BY_ORDER, table: Table = TABLE) -> Entry:
    table = replace(table, method=method)
    inputs, restricted = {"bronze_orders": COLUMNS}, {"bronze_orders": "order_id"}
    key = definition_keys({ORDERS.name: ORDERS, table.name: table})[table.name]
    words = table.refresh_method
    proven = Proof(table.name, fingerprint(table), table.fingerprint, words, COLUMNS, inputs, restricted)
    return Entry(table.name, key, table.refresh, method, "rows follow from rows", {"latest rows": "none"}, proven)


def graph(*tables: Table, feed: Feed = ORDERS) -> Registry:
    return build([feed, *tables])


def write(folder: Path, *entries: Entry, tables: Registry | None = None) -> Path:
    path = folder / NAME
    path.write_text(lock_text(graph_of(tables or graph(TABLE)), entries))
    return path


@pytest.mark.parametrize(
    "method",
    [
        ByKey("k", {"a": Via("x", "b", "y")}, {"b": "k"}),
        Additive(("days", "weeks")),
        Recent("a", "at", timedelta(days=1, seconds=2)),
        Full("it has LIMIT, which looks at all rows"),
    ],
)
def test_a_line_is_read_as_it_was_written(tmp_path: Path, method: Method) -> None:
    written = entry(method)
    (found,) = read_lock(write(tmp_path, written)).entries.values()
    assert found == written
    assert getattr(found.method, "reason", "") == getattr(method, "reason", "")
    assert read_lock(tmp_path / "none").entries == {}


def sealed(*lines: str) -> bytes:
    """A lock of these lines whose first line fits them."""
    return "".join(f"{line}\n" for line in (json.dumps({"graph": _seal("g", lines)}), *lines)).encode()


def edited(lock: bytes) -> bytes:
    """The same lock, in which somebody changed what is proven."""
    return lock.replace(b'"restricted": {"bronze_orders": "order_id"}', b'"restricted": {"bronze_orders": "user_id"}')


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (edited, "or was edited or merged since"),
        (lambda lock: lock.split(b"\n", 1)[1], "is not as this version of medallion writes it"),
        (lambda _: sealed('{"table": "silver_x"}'), "line 2, cannot be read"),
        (lambda _: b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_lock_that_is_not_as_it_was_written_is_refused_and_only_by_whoever_refreshes(
    tmp_path: Path, change: Callable[[bytes], bytes], reason: str
) -> None:
    path = write(tmp_path, entry())
    before = path.read_bytes()
    path.write_bytes(change(before))
    assert path.read_bytes() != before
    with pytest.raises(MedallionError, match=f"{reason}.* medallion plan --write"):
        read_lock(path)
    assert with_methods(graph(TABLE), path) == graph(TABLE), "whoever only looks at tables is not stopped by it"


def test_tables_have_the_method_of_their_line_and_those_that_have_changed_none(tmp_path: Path) -> None:
    path = write(tmp_path, entry())

    def method_of(table: Table, feed: Feed = ORDERS) -> Method | None:
        found = with_methods(graph(table, feed=feed), path)[table.name]
        assert isinstance(found, Table)
        return found.method

    assert method_of(TABLE) == BY_ORDER
    assert method_of(replace(TABLE, query="SELECT * FROM {bronze_orders} WHERE order_id > 1")) is None
    assert method_of(replace(TABLE, keys=("status",))) is None
    assert method_of(replace(TABLE, refresh="full")) is None
    assert method_of(TABLE, replace(ORDERS, schema="order_id BIGINT NOT NULL, status STRING, n INT")) is None
    assert method_of(TABLE, replace(ORDERS, schema="order_id BIGINT NOT NULL, status STRING NOT NULL")) is None


def test_a_lock_is_known_to_be_derived_from_a_graph_until_graph_or_lock_change(tmp_path: Path) -> None:
    path = write(tmp_path, entry())
    assert is_derived_from(graph_of(graph(TABLE)), path)
    assert not is_derived_from(graph_of(graph(TABLE, READER)), path), "a new reader may need another key of a table"
    path.write_text(path.read_text().replace('"key": "order_id"', '"key": "status"'))
    assert not is_derived_from(graph_of(graph(TABLE)), path), "a line was edited by hand"


def test_spark_is_not_asked_of_what_is_locked(tmp_path: Path) -> None:
    path = write(tmp_path, entry())
    tables = with_methods(graph(TABLE), path)
    found, problems = proven.with_derived(tables, lambda: pytest.fail("needs no Spark"), read_lock(path).proofs)
    assert (found, problems) == (tables, {})


@pytest.mark.parametrize(
    "changed",
    [
        {"query": "SELECT * FROM {bronze_orders} WHERE order_id > 1"},
        {"method": Full()},
        {"keys": ("status",)},
    ],
)
def test_spark_is_asked_again_of_a_table_that_has_changed(changed: dict[str, Any]) -> None:
    known = {entry().proof.fingerprint: entry().proof}
    table = replace(TABLE, method=BY_ORDER)
    assert proof.prove([table], {"bronze_orders": ORDERS}, ask, known) == {"silver_orders": entry().proof}
    with pytest.raises(Asked):
        proof.prove([replace(table, **changed)], {"bronze_orders": ORDERS}, ask, known)


def test_a_method_whose_proof_is_of_another_version_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, entry())
    monkeypatch.setattr(proof, "VERSION", proof.VERSION + 1)

    def session() -> Any:
        raise NoPlans("Spark Connect shows no plans: run medallion plan --write")

    found, _ = proven.with_derived(with_methods(graph(TABLE), path), session, read_lock(path).proofs)
    table = found["silver_orders"]
    assert isinstance(table, Table) and isinstance(table.method, Full), "what was proven otherwise is not relied on"
    assert "medallion plan --write" in table.method.reason


def test_a_table_that_only_spark_connect_could_prove_is_recomputed_and_says_why() -> None:
    def no_session() -> Any:
        raise NoPlans("Spark Connect shows no plans: run medallion plan --write")

    found = proven.proofs_of([TABLE], {"bronze_orders": ORDERS}, no_session, {})["silver_orders"]
    assert "medallion plan --write" in found.unproven
    assert [name for name, _, _ in found.inputs["bronze_orders"]] == ["order_id", "status"], "as declared, all the same"


def test_the_lock_of_the_project_has_every_table_as_it_is() -> None:
    every, path = registry(extras=True), SHOP.root / NAME
    assert is_derived_from(graph_of(every), path), "run medallion plan --write"
    tables = [table for table in every if isinstance(table, Table)]
    assert all(table.method is not None for table in tables)
    assert proof.prove(tables, every.tables, ask, read_lock(path).proofs).keys() == {table.name for table in tables}
    assert read_lock(path).entries.keys() == {table.name for table in tables}
