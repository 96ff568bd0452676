"""A demo hour broken on purpose: every supplier deleted, and taken back to the byte."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from demo.broken_hour import break_hour, mend_hour
from demo.generate import generate
from medallion.cli.main import cli
from medallion.errors import UsageError

HOUR = "2025-11-30T01"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    generate(tmp_path / "shop", days=1, hours=2, scale=0.02, seed=0)
    return tmp_path / "shop"


def files(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.glob("cdc/**/*.json")}


def test_broken_hour_deletes_every_supplier_and_is_mended_to_the_byte(shop: Path) -> None:
    name = f"cdc/suppliers/{HOUR}.json"
    before = files(shop)
    suppliers = DeltaTable(shop / "snapshot" / "bronze_suppliers").to_pyarrow_table()["supplier_id"].to_pylist()
    count = break_hour(shop, HOUR)
    broken = files(shop)
    deleted = {json.loads(line).get("delete", {}).get("supplier_id") for line in broken[name].splitlines()}
    assert deleted >= {*suppliers} and count >= len(suppliers)
    assert {key: text for key, text in broken.items() if key != name} == {
        key: text for key, text in before.items() if key != name
    }
    assert break_hour(shop, HOUR) == count and files(shop) == broken, "twice is as once"
    assert mend_hour(shop, HOUR) == count
    assert files(shop) == before | {name: before.get(name, "")}
    assert mend_hour(shop, HOUR) == 0


def test_only_an_hour_of_a_demo_source_can_be_broken(shop: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no demo source"):
        break_hour(tmp_path, HOUR)
    with pytest.raises(UsageError, match="has no hour 2025-12-24T00"):
        mend_hour(shop, "2025-12-24T00")


def test_commands_say_what_they_did_and_what_comes_next(shop: Path) -> None:
    broken = CliRunner().invoke(cli, ["source", "break", str(shop), "--hour", HOUR])
    assert f"{HOUR} deletes all" in broken.output
    mended = CliRunner().invoke(cli, ["source", "mend", str(shop), "--hour", HOUR])
    assert f"now medallion refresh --restate {HOUR}" in mended.output
    again = CliRunner().invoke(cli, ["source", "mend", str(shop), "--hour", HOUR])
    assert "is not broken: nothing to do" in again.output


def test_hour_that_the_lake_has_applied_is_not_broken(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lake would call its file late, and its check stays green."""
    monkeypatch.setenv("MEDALLION_SOURCE", str(shop))
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "lake"))
    monkeypatch.setattr("medallion.ingest.ledger.applied_hour", lambda lake, tables: HOUR)
    before = files(shop)
    refused = CliRunner().invoke(cli, ["source", "break", str(shop), "--hour", HOUR])
    assert f"{HOUR} is applied already" in str(refused.exception or refused.output) and files(shop) == before
