"""Full beside incremental on a project's own tables: how it is summed up. It is run in e2e/test_new_project."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from medallion.cli.main import cli
from medallion.errors import UsageError
from medallion.ingest.source import no_progress
from medallion.inspect.run_history import RunFigures
from medallion.pipeline import comparison
from medallion.pipeline.comparison import ComparedHour, Comparison, saving
from medallion.settings import Settings
from medallion.storage.lake import Lake
from tests.unit.small_lake import H0


def figures(strategy: str, seconds: float, cpu: float) -> RunFigures:
    of = {"silver": seconds, "apply": 1.0}
    return RunFigures("run", H0, strategy, "succeeded", 1, 1, (1, 1), 0, 1, of, {"silver": cpu}, None)


def hour(full: float, incremental: float, counts: bool = True) -> ComparedHour:
    return ComparedHour(
        H0, {"full": figures("full", full, 2 * full), "incremental": figures("incremental", incremental, 1.0)}, counts
    )


def test_saving_is_of_the_layers_that_a_strategy_changes_and_leaves_the_warm_up_out() -> None:
    found = saving([hour(1.0, 50.0, counts=False), hour(10.0, 5.0), hour(10.0, 2.0), hour(10.0, 1.0)])
    assert (found.hours, found.seconds, round(found.cpu, 9)) == (3, 0.2, 0.05)
    assert found.cpu_hours == {"full": 20 / 3600, "incremental": 1 / 3600}


def test_lake_in_a_bucket_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "spark_session", lambda _: pytest.fail("no session is needed to refuse it"))
    with pytest.raises(UsageError, match="s3a://b/lake is in a bucket, and is not copied: give --anew"):
        list(Comparison(Settings(lake="s3a://b/lake"), 1).run(tmp_path, no_progress))


@pytest.mark.parametrize(
    ("anew", "ending"), [(False, "--hours, or --anew to begin with the snapshot"), (True, "--hours")]
)
def test_comparison_of_too_few_hours_is_refused_before_it_says_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anew: bool, ending: str
) -> None:
    source = tmp_path / "source" / "cdc" / "orders"
    source.mkdir(parents=True)
    (source / f"{H0}.json").touch()
    monkeypatch.setattr(comparison, "spark_session", lambda _: pytest.fail("no session is needed to refuse it"))
    monkeypatch.setattr(comparison, "pending_at_source", lambda _: [H0])
    plan = Comparison(Settings(lake=str(tmp_path / "lake"), source=str(tmp_path / "source")), 3, anew=anew)
    with pytest.raises(UsageError, match=f"needs 4 pending ones.* the source has 1: give fewer {ending}$"):
        list(plan.run(tmp_path, lambda *_: pytest.fail("nothing has begun")))


def test_copy_has_no_writer_and_every_table_whatever_it_is_called(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    for name in ("ops/lease/1.json", "ops/writer.lock", "ops/tables.json", "gold/lease/part.parquet"):
        (tmp_path / "lake" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lake" / name).touch()
    comparison._copy(lake, str(tmp_path / "copy"))
    copied = {file.relative_to(tmp_path / "copy").as_posix() for file in (tmp_path / "copy").rglob("*.*")}
    assert copied == {"ops/tables.json", "gold/lease/part.parquet"}


def test_lake_that_is_not_loaded_is_said_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "none"))
    result = CliRunner().invoke(cli, ["compare"])
    assert "does not exist: run medallion load to create it" in str(result.exception)
