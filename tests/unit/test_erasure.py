"""Erasing persons from a small lake: what goes, what stays, and that it goes on after a death at any step."""

import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.errors import CheckFailed, HourOutOfOrder, MedallionError, UsageError
from medallion.ingest.change_log import begin_log
from medallion.ingest.restatement import read_restatement
from medallion.inspect.status import lake_status
from medallion.model.registry import Registry
from medallion.model.table import ChangeLog, Feed, Table
from medallion.ops import releases
from medallion.ops.check_records import Failure, read_check_record, write_check_record
from medallion.ops.holds import add_hold, read_holds
from medallion.pipeline import erasure, operations, steps
from medallion.pipeline.driver import Driver
from medallion.pipeline.erase_forecast import forecast
from medallion.pipeline.erase_history import Sealed, cut_history, seal_tables
from medallion.pipeline.erase_plan import read_plan
from medallion.pipeline.reprocess import reprocess
from medallion.pipeline.run import Outcome, Run
from medallion.settings import Settings
from medallion.storage.delta_writes import properties
from medallion.storage.foreign_commits import ChangedByOthers, provenance
from medallion.storage.live_rows import read_live_rows
from tests.shop import build
from tests.unit.small_lake import ARROW, BY_A_LOAD, CHANGE_FEED, H0, H1, H2, H3, Shop, lines_of, without_spark

COLUMNS = "id BIGINT NOT NULL, name STRING"
ADDRESS = "someone@example.com"


def tables(**declared: Any) -> Registry:
    about: dict[str, Any] = {"subject": "id", "personal": ("name",)} | declared
    return build(
        [
            Feed(keys=("id",), schema=COLUMNS, name="bronze_orders", doc="One row per id.", **about),
            Feed(keys=("id",), schema=COLUMNS, name="bronze_items", doc="One row per id."),
            ChangeLog(of="bronze_orders", source_system="till", name="bronze_orders_log", doc="Every change."),
            Table(keys=("id",), query="SELECT * FROM {bronze_orders}", name="silver_orders", doc="A copy."),
            Table(keys=("id",), query="SELECT * FROM {silver_orders}", name="gold_orders", layer="gold", doc="A copy."),
        ]
    )


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)


@pytest.fixture(scope="module")
def filled_shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Two hours, with a person 42 in several versions of every table and a rejected line."""
    with pytest.MonkeyPatch.context() as patch:
        without_spark(patch)
        return filled(Shop(tmp_path_factory.mktemp("filled"), tables()))


@pytest.fixture
def shop(filled_shop: Shop, tmp_path: Path) -> Shop:
    """A copy of it."""
    shutil.copytree(filled_shop.root, tmp_path, dirs_exist_ok=True)
    return replace(filled_shop, root=tmp_path)


def filled(made: Shop) -> Shop:
    (made.root / "source" / "cdc").mkdir(parents=True)
    for feed in made.tables.feeds:
        empty, options = ARROW.empty_table(), made.lake.storage_options
        write_deltalake(made.lake.path(feed.name), empty, configuration=CHANGE_FEED, storage_options=options)
    for log in made.tables.logs:
        begin_log(made.lake, log)
    steps.refresh_onward(Run(made.settings, None, "load"), made.driver())
    made.put(H0, {1: "one", 42: ADDRESS, 43: "three"})
    made.refresh(H0)
    bad = json.dumps({"insert": {"id": "x", "name": ADDRESS}})
    others = lines_of({n: f"n{n}" for n in range(100, 300)})
    made.put(H1, lines_of({42: f"{ADDRESS} "}) + lines_of({42: ADDRESS}) + bad + "\n" + others)
    made.refresh(H1)
    return made


def erase(shop: Shop, *subjects: str, values: tuple[str, ...] = (), force: bool = False) -> erasure.Erased:
    run = Run(shop.settings, None, "erase", strategy="full")
    return erasure.erase(run, shop.driver(), subjects, values, force=force)[1]


def read_by_hand(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file as a text, by a reader that knows nothing of the product: Parquet by pyarrow, the rest as bytes."""
    for file in sorted(folder.rglob("*")):
        if not file.is_file():
            continue
        raw = file.read_bytes()
        if raw[:4] == b"PAR1":
            table = pq.read_table(file, partitioning=None)
            yield file, json.dumps(table.to_pylist(), default=str) + str(pq.read_metadata(file).metadata)
        elif raw[:2] == b"\x1f\x8b":
            yield file, gzip.decompress(raw).decode()
        else:
            yield file, raw.decode("utf-8", "replace")


def traces(shop: Shop) -> list[str]:
    """Where person 42, or the address, is still found in the lake."""
    named = re.compile(r"""\bid\b\W{1,12}(?:IN\W+)?(?:\d+, )*42\b""")
    return [
        str(file.relative_to(shop.root))
        for file, text in read_by_hand(shop.root / "lake")
        if "someone" in text or named.search(text)
    ]


def test_person_is_in_no_byte_of_the_lake_after_erasing(shop: Shop) -> None:
    before = traces(shop)
    assert {path.split("/")[1] for path in before} >= {"bronze", "silver", "gold", "landing", "quarantine"}
    done = erase(shop, "42")
    assert done.rows == {"bronze_orders": 1, "bronze_orders_log": 3}
    assert not done.left
    assert traces(shop) == []
    assert 42 not in shop.published()
    assert shop.published()[43] == "three"
    assert shop.published("silver_orders").keys() == {1, 43, *range(100, 300)}


@pytest.mark.parametrize("purged_at_once", [512 << 20, 1])
def test_person_is_in_no_byte_where_rows_were_marked_as_deleted_and_stayed_in_their_files(
    shop: Shop, purged_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medallion.storage.purge.MAX_PURGED_BYTES", purged_at_once)
    vars(shop).pop("lake", None)
    vars(shop)["settings"] = shop.settings.replace(merge_on_read="1k")
    shop.put(H2, {42: "another name", 100: "another"})
    shop.refresh(H2)
    folder = shop.lake.folder("bronze_orders")
    assert [*folder.glob("deletion_vector_*.bin")], "an old row of the person lies beside its mark"
    done = erase(shop, "42")
    assert not done.left
    assert traces(shop) == []
    assert [*folder.glob("deletion_vector_*.bin")] == []
    assert shop.published()[100] == "another"


def test_history_stays_while_only_spark_can_rewrite_the_files_with_marked_rows(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    vars(shop).pop("lake", None)
    vars(shop)["settings"] = shop.settings.replace(merge_on_read="1k")
    shop.put(H2, {42: "another name", 100: "another"})
    shop.refresh(H2)
    folder = shop.lake.folder("bronze_orders")
    with monkeypatch.context() as foreign:
        foreign.setattr("medallion.pipeline.erase_history.purge", lambda *of, **how: 0)
        with pytest.raises(MedallionError, match="nothing is removed yet; run REORG TABLE"):
            erase(shop, "42")
        assert shop.published()[100] == "another"
    version = shop.lake.opened(str(folder)).version()
    shop.lake.opened(str(folder)).create_checkpoint()
    cut_history(shop.lake, Sealed(str(folder), version, version, None))
    assert read_live_rows(shop.lake.opened(str(folder)), folder)["id"].to_pylist().count(100) == 1
    assert not erase(shop, "42").left
    assert traces(shop) == []


def test_newest_release_can_be_read_and_earlier_ones_are_dropped(shop: Shop) -> None:
    done = erase(shop, "42")
    (left,) = releases.read_all(shop.lake)
    assert left.release_id == done.release_id
    assert left.hour == H1
    for name in left.versions:
        version = left.version_of(name)
        assert version is not None
        DeltaTable(str(shop.lake.folder(name)), version=version.version).to_pyarrow_table()


def test_the_last_line_of_an_erasure_says_which_release_readers_have(shop: Shop) -> None:
    said: list[str] = []
    for subject in ("42", "4711"):  # of whom there are rows, and of whom there is nothing
        erasure.erase(Run(shop.settings, None, "erase", strategy="full"), shop.driver(said), [subject])
        release = releases.require_release(shop.lake, None)
        assert said[-1].endswith(f"readers have release {release.release_id}, hour {H1}")


def test_release_that_is_held_is_dropped_by_force_alone(shop: Shop) -> None:
    add_hold(shop.lake, "audit", releases.read_all(shop.lake)[0].release_id)
    before = read_plan(shop.lake), [release.release_id for release in releases.read_all(shop.lake)]
    with pytest.raises(UsageError, match="nothing is erased: release 1 is held as audit and has rows about them"):
        erase(shop, "42")
    assert before == (read_plan(shop.lake), [release.release_id for release in releases.read_all(shop.lake)])
    erase(shop, "77")  # of whom no release has a row
    lines = [*forecast(shop.lake, shop.tables, ["42"], (), shop.settings.source).lines()]
    assert "release 1 is held as audit: only --force drops it" in lines
    assert lines[0].startswith("rows about them: ") and "1 of bronze_orders" in lines[0]
    assert "rows about them: none" in [*forecast(shop.lake, shop.tables, ["4711"], (), shop.settings.source).lines()]
    done = erase(shop, "42", force=True)
    assert (done.holds, read_holds(shop.lake), traces(shop)) == (["audit"], [], [])


def test_untouched_table_keeps_its_history(shop: Shop) -> None:
    folder = shop.lake.folder("bronze_items")
    before = sorted(folder.rglob("*"))
    erase(shop, "42")
    assert sorted(folder.rglob("*")) == before


def test_next_hours_go_on_and_drop_what_comes_of_an_erased_person(shop: Shop) -> None:
    erase(shop, "42")
    shop.put(H2, {42: ADDRESS, 44: "four"})
    said: list[str] = []
    shop.refresh(H2, said)
    assert any("1 line of orders dropped, as they are about erased persons" in line for line in said)
    assert shop.published()[44] == "four"
    assert traces(shop) == []
    shop.put(H2, {42: ADDRESS, 45: "five"})
    shop.restate(H2)
    assert shop.published()[45] == "five"
    assert traces(shop) == []


def test_lake_equals_one_that_never_had_the_person(shop: Shop, tmp_path: Path) -> None:
    erase(shop, "42")
    never = Shop(tmp_path / "never", shop.tables)

    def without(text: str) -> str:
        return "".join("\n" if '"id": 42,' in line else f"{line}\n" for line in text.splitlines())

    monkey = Shop.put

    def put(self: Shop, hour: str, rows: Any, topic: str = "orders") -> Path:
        return monkey(self, hour, without(rows if isinstance(rows, str) else lines_of(rows)), topic)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shop, "put", put)
        filled(never)
    for name in ("bronze_orders", "silver_orders", "gold_orders"):
        assert shop.rows(name) == never.rows(name)


def test_unknown_person_is_remembered_and_nothing_else_changes(shop: Shop) -> None:
    before = releases.read_all(shop.lake)
    done = erase(shop, "77")
    assert not (done.rows or done.tables or done.releases)
    assert releases.read_all(shop.lake) == before
    shop.put(H2, {77: "late", 44: "four"})
    shop.refresh(H2)
    assert 77 not in shop.published()


def test_blanked_rows_stay_without_their_personal_columns(shop: Shop, tmp_path: Path) -> None:
    schema = "id BIGINT NOT NULL, name STRING"
    blank = tables(subject="name", personal=(), erase="blank")
    assert blank["bronze_orders"].schema == schema  # type: ignore[union-attr]
    shop = replace(shop, tables=blank)
    done = erase(shop, ADDRESS, f"{ADDRESS} ")
    assert done.rows["bronze_orders"] == 1
    assert shop.published()[42] is None
    assert not traces_of(shop, "someone")


def traces_of(shop: Shop, text: str) -> list[str]:
    return [str(file) for file, content in read_by_hand(shop.root / "lake") if text in content]


def test_wrong_use_is_refused_and_names_nobody(shop: Shop) -> None:
    with pytest.raises(UsageError, match="subject 1 is of no type"):
        erase(shop, ADDRESS)
    with pytest.raises(UsageError, match="nobody is named: run medallion erase with --subject-file"):
        erase(shop)
    assert read_plan(shop.lake) is None


def test_erasure_whose_check_fails_is_ended_once_it_passes(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(run: Run, driver: Driver) -> Outcome:
        record = read_check_record(driver.lake, "gold")
        assert record is not None
        failure = Failure("gold_orders", "every order has its customer", "1 row")
        write_check_record(driver.lake, replace(record, status="failed", failures=(failure,)))
        raise CheckFailed("gold check failed")

    with monkeypatch.context() as patch:
        patch.setattr(erasure, "refresh_onward", fails)
        with pytest.raises(CheckFailed):
            erase(shop, "42")
    assert 42 in shop.published()  # readers keep what they have
    with pytest.raises(HourOutOfOrder, match="was cut short"):
        shop.roll_back(1)
    erase(shop)
    assert traces(shop) == []
    assert 42 not in shop.published()


def test_nothing_is_restated_replayed_or_reprocessed_before_an_unfinished_erasure_is_finished(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(erasure, "_end_history", died)
        with pytest.raises(Died):
            erase(shop, "42")
    (line,) = [number for number, raw in enumerate(landed_lines(shop, H1), 1) if '"x"' in raw]
    doors: tuple[Callable[[], Any], ...] = (
        lambda: shop.restate(H1),
        lambda: operations.replay(Run(shop.settings, H1, "replay"), shop.driver(), "orders", {line: "{}"}),
        lambda: reprocess(Run(shop.settings, None, "reprocess", select="silver_orders"), shop.driver()),
        lambda: operations.refresh_hour(Run(shop.settings, None, "select", select="silver_orders"), shop.driver()),
    )
    for door in doors:
        with pytest.raises(HourOutOfOrder, match="erasure .* was cut short: run medallion erase to finish it"):
            door()
    assert read_restatement(shop.lake) is None
    monkeypatch.setattr("medallion.inspect.status.tables_of", lambda *_: shop.tables)
    assert any("was cut short: run medallion erase" in problem for problem in lake_status(shop.settings).problems)
    erase(shop)
    assert traces(shop) == []
    assert lake_status(shop.settings).problems == []


def landed_lines(shop: Shop, hour: str) -> list[str]:
    return (shop.root / "source" / "cdc" / "orders" / f"{hour}.json").read_text().splitlines()


def test_text_that_others_have_too_takes_nothing_of_theirs(shop: Shop) -> None:
    shop.put(H2, {50: "shared text", 51: "shared text"})
    shop.refresh(H2)
    erase(shop, "50")
    assert shop.published()[51] == "shared text"
    landed = (shop.root / "lake" / "landing" / "orders" / f"{H2}.json").read_text()
    assert "51" in landed and "50" not in landed


class Died(BaseException):
    """The process ended here."""


STEPS = (
    "write_plan",
    "erase_rows",
    "refresh_onward",
    "clean_quarantine",
    "clean_events",
    "search",
    "_clean_beside",
    "seal_tables",
    "publish_sealed",
    "drop_releases",
    "cut_history",
    "end_plan",
)


@pytest.mark.parametrize(  # after most of them, it is as before the next one
    ("step", "after"),
    [*((step, False) for step in STEPS), ("write_plan", True), ("erase_rows", True), ("end_plan", True)],
)
def test_erasure_goes_on_where_it_died(shop: Shop, monkeypatch: pytest.MonkeyPatch, step: str, after: bool) -> None:
    work = getattr(erasure, step)

    def dies(*args: Any, **named: Any) -> Any:
        if after:
            result = work(*args, **named)
            if step == "erase_rows":
                next(result)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(erasure, step, dies)
        with pytest.raises(Died):
            erase(shop, "42")
    if read_plan(shop.lake) is not None:
        shop.put(H2, {44: "four"})
        with pytest.raises(HourOutOfOrder, match="was cut short: run medallion erase"):
            shop.refresh(H2)
        assert shop.published() is not None
        erase(shop)
    elif step == "write_plan":
        erase(shop, "42")
    assert traces(shop) == []
    shop.put(H2, {42: ADDRESS, 44: "four"})
    shop.refresh(H2)
    assert shop.published() == {1: "one", 43: "three", 44: "four"} | {n: f"n{n}" for n in range(100, 300)}


def test_state_of_relations_about_persons_goes_and_other_state_stays(shop: Shop) -> None:
    about, other, dropped = (
        shop.lake.aggregate_state_path(table, "_kept_0") for table in ("gold_orders", "silver_items", "gold_gone")
    )
    for folder in (about, other, dropped):  # in which the person is still, in a column of no name
        write_deltalake(folder, pa.table({"_k0": [42, 42], "_rows": [1, -1]}), commit_properties=BY_A_LOAD)
    vars(shop)["tables"] = build(
        [
            *shop.tables,
            Table(keys=("id",), query="SELECT * FROM {bronze_items}", name="silver_items", doc="A copy."),
        ]
    )
    done = erase(shop, "42")
    assert {about, dropped} <= {*done.files}
    assert [Path(path).exists() for path in (about, other, dropped)] == [False, True, False]


def test_state_that_has_not_followed_its_input_goes_and_state_that_has_is_moved_to_the_version_without_history(
    shop: Shop,
) -> None:
    shop.put(H2, {44: "four"})
    shop.refresh(H2)
    newest = DeltaTable(shop.lake.path("silver_orders")).version()
    lagging, current = (shop.lake.aggregate_state_path(table, "part") for table in ("gold_orders", "silver_orders"))
    for path, version in ((lagging, newest - 1), (current, newest)):
        origin = {"inputs": {"silver_orders": version}, "query": "q"}
        rows = pa.table({"id": [1], "_rows": [1]})
        write_deltalake(path, rows, commit_properties=properties(json.dumps(origin)))
    driver = shop.driver()
    with driver.writing(Run(shop.settings, None, "erase"), "erase"):
        sealed = seal_tables(driver, ["silver_orders"])
    moved = {"silver_orders": sealed["silver_orders"].version}
    assert not Path(lagging).exists()
    assert provenance(Path(current), sealed[current].version).origin["inputs"] == moved
    gold = sealed["gold_orders"]
    assert provenance(Path(gold.path), gold.version).origin["inputs"] == moved


@pytest.mark.long
def test_person_is_in_no_object_of_a_bucket_also_when_the_erasure_died_in_between(
    lake_bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Shop(tmp_path, tables())
    vars(made)["settings"] = Settings.from_environment().replace(
        lake="s3a://lakes/shop", source=made.settings.source, lock_wait=0
    )
    shop = filled(made)
    assert {path.split("/")[1] for path in traces(download(shop, lake_bucket))} >= {"bronze", "gold", "landing"}
    with monkeypatch.context() as patch:
        patch.setattr(erasure, "cut_history", died)
        with pytest.raises(Died):
            erase(shop, "42")
    erase(shop)
    assert traces(download(shop, lake_bucket)) == []
    shop.put(H2, {42: ADDRESS, 44: "four"})
    shop.refresh(H2)
    assert shop.published() == {1: "one", 43: "three", 44: "four"} | {n: f"n{n}" for n in range(100, 300)}
    assert traces(download(shop, lake_bucket)) == []


def download(shop: Shop, bucket: Any) -> Shop:
    """Return a shop whose lake is a folder with all that the bucket has now."""
    root = shop.root / f"copy_{len([*shop.root.iterdir()])}"
    for entry in bucket.objects.all():
        target = root / "lake" / entry.key.removeprefix("shop/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(entry.get()["Body"].read())
    return Shop(root, shop.tables)


def died(*_: Any, **__: Any) -> Any:
    raise Died


def test_values_that_others_have_too_go_with_the_history_of_a_table_without_subject(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.put(H2, {50: "Otto", 51: "Otto"})
    shop.refresh(H2)
    query = "SELECT name, COUNT(*) AS rows FROM {silver_orders} GROUP BY name"
    vars(shop)["tables"] = build(
        [*shop.tables, Table(keys=("name",), query=query, name="gold_names", layer="gold", doc="One row per name.")]
    )
    folder = shop.lake.path("gold_names")
    for count in (2, 1):
        rows = pa.table({"name": ["Otto"], "rows": [count]})
        write_deltalake(folder, rows, mode="overwrite", commit_properties=BY_A_LOAD)

    def dies(*_: Any) -> Any:
        raise Died

    monkeypatch.setattr(erasure, "tables_left_behind", lambda _: ())
    monkeypatch.setattr(erasure, "refresh_onward", lambda *_: None)
    with monkeypatch.context() as patch:
        patch.setattr(erasure, "end_plan", dies)
        with pytest.raises(Died):
            erase(shop, "50")
    assert len([*Path(folder).glob("*.parquet")]) == 1
    assert "gold_names" in erase(shop).tables


def test_values_that_are_named_as_an_erasure_is_finished_are_searched_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = shop.root / "lake" / "landing" / "orders" / "left.part"
    note.write_text("someone@before.example")

    def dies(*_: Any) -> Any:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(erasure, "refresh_onward", dies)
        with pytest.raises(Died):
            erase(shop, "42")
    plan = shop.root / "lake" / "ops" / "erasure" / "plan.json"
    left = plan.with_name(f".{plan.name}.1.part")  # of a process that was killed as it wrote
    left.write_text(plan.read_text())
    erase(shop, "42", values=("someone@before.example",))
    assert not note.exists()
    assert not left.exists()
    assert traces(shop) == []


def test_nothing_is_begun_while_a_table_of_bronze_was_changed_by_somebody_else(shop: Shop) -> None:
    foreign = pa.table({"id": [900], "name": ["foreign"]}, schema=ARROW)
    write_deltalake(shop.lake.path("bronze_orders"), foreign, mode="append")
    with pytest.raises(ChangedByOthers, match="bronze_orders was changed by somebody else"):
        erase(shop, "42")
    assert read_plan(shop.lake) is None
    assert shop.rows()[42] == ADDRESS


def test_file_of_an_unknown_form_that_has_a_text_of_the_person_is_named(shop: Shop) -> None:
    database = shop.root / "lake" / "notes" / "copy.db"
    database.parent.mkdir()
    database.write_bytes(b"\0\1" * 3_000 + b"x" + ADDRESS.encode() + b"next")
    assert erase(shop, "42").left == [str(database)]


def test_name_of_several_words_goes_from_lines_that_name_nobody_and_stays_in_those_of_others(shop: Shop) -> None:
    shop.put(H2, lines_of({50: "Otto Meier"}) + '{"insert": {"name": "Otto Meier", "i\n' + lines_of({51: "ok"}))
    shop.refresh(H2)
    shop.put(H3, {60: "Otto Meier"})
    shop.step("land", H3)
    done = erase(shop, "50")
    assert not done.left
    assert done.lines == 1
    shop.refresh(H3)
    assert shop.published()[60] == "Otto Meier"


def test_person_with_a_name_that_is_a_common_word_takes_nothing_of_others(shop: Shop) -> None:
    shop.put(H2, {50: "insert", 51: "orders", 52: "Paris"})
    shop.refresh(H2)
    shop.put(H3, {60: "Paris", 61: "seven"})
    shop.step("land", H3)
    shop.drop(H3)
    shop.put(H3, {1: "one"}, "items")
    done = erase(shop, "50", "51", "52")
    assert not done.left
    assert {Path(file).name for file in done.files} == {f"{H2}.json"}
    shop.refresh(H3)
    assert shop.published()[60] == "Paris"
    assert shop.published().keys().isdisjoint({50, 51, 52})
