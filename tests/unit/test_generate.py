"""The demo source: its layout, that hours follow from the snapshot, and the habits of a real shop it must show."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from click.testing import CliRunner
from deltalake import DeltaTable

from demo.generate import Summary, generate
from demo.writers import NEVER, ChangeFiles, Images, Style, table_of
from medallion.cli.main import cli
from medallion.errors import UsageError
from medallion.ingest.arrow_types import arrow_type
from medallion.ingest.decode import decode_file
from medallion.model.table import Feed
from tests.shop import registry

FEEDS = {feed.topic: feed for feed in registry().feeds}
EVERY_HOUR = {"orders", "order_items", "clickstream_events", "inventory_events"}
VALID_STATUSES = {"pending", "confirmed", "shipped", "delivered", "cancelled", "returned"}
HOUR = timedelta(hours=1)
FIRST_HOUR = datetime(2025, 11, 30, tzinfo=UTC)

Row = dict[str, Any]


class Change(NamedTuple):
    """A line of a change file: the row image, inserted or deleted, and the start of the file's hour."""

    hour: datetime
    inserted: bool
    row: Row


class Source:
    """A generated source, read back with nothing of the generator's own."""

    def __init__(self, root: Path, summary: Summary) -> None:
        self.root, self.summary = root, summary
        self._snapshots: dict[str, list[Row]] = {}
        self._changes: dict[str, list[Change]] = {}

    def table(self, topic: str) -> pa.Table:
        return DeltaTable(self.root / "snapshot" / f"bronze_{topic}").to_pyarrow_table()

    def snapshot(self, topic: str) -> list[Row]:
        if topic not in self._snapshots:
            self._snapshots[topic] = self.table(topic).to_pylist()
        return self._snapshots[topic]

    def files(self, topic: str) -> list[Path]:
        return sorted((self.root / "cdc" / topic).iterdir())

    def changes(self, topic: str) -> list[Change]:
        if topic not in self._changes:
            self._changes[topic] = [
                Change(datetime.fromisoformat(f"{file.stem}:00:00+00:00"), "insert" in line, typed(FEEDS[topic], row))
                for file in self.files(topic)
                for line in map(read_json, file.read_text().splitlines())
                for row in line.values()
            ]
        return self._changes[topic]

    def updates(self, topic: str) -> Iterator[tuple[datetime, Row, Row]]:
        """Hour, old image and new image of every delete that its own insert follows."""
        changes, key = self.changes(topic), FEEDS[topic].keys[0]
        for old, new in pairwise(changes):
            if not old.inserted and new.inserted and old.row[key] == new.row[key]:
                yield old.hour, old.row, new.row


def read_json(line: str) -> Any:
    return json.loads(line, parse_float=Decimal)


def typed(feed: Feed, row: Row) -> Row:
    """A row as JSON has it, with the values that a table of ``feed`` has."""

    def value(sql: str, given: Any) -> Any:
        if given is None:
            return None
        if sql.startswith("DECIMAL"):
            return Decimal(given)
        if sql == "DATE":
            return datetime.fromisoformat(given).date()
        if sql == "TIMESTAMP":
            return datetime.fromisoformat(given.replace("Z", "")).replace(tzinfo=UTC)
        return given

    assert list(row) == [column.name for column in feed.columns]
    return {column.name: value(column.type, row[column.name]) for column in feed.columns}


def contents(root: Path) -> dict[str, bytes]:
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def small(target: Path, **changed: Any) -> Summary:
    arguments: dict[str, Any] = {"days": 2, "hours": 3, "scale": 0.05, "seed": 7}
    return generate(target, **(arguments | changed))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """Two days and three hours: enough for what every source has."""
    root = tmp_path_factory.mktemp("small") / "source"
    return Source(root, small(root))


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """Weeks and a day: enough for what happens seldom."""
    root = tmp_path_factory.mktemp("weeks") / "source"
    return Source(root, small(root, days=24, hours=24, scale=0.06))


# The same arguments, the same bytes


def test_the_same_arguments_give_the_same_bytes(source: Source, tmp_path: Path) -> None:
    small(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(source.root)


def test_command_leaves_a_source_that_exists_unless_it_is_forced(tmp_path: Path) -> None:
    def generate_command(*options: str) -> tuple[int, str]:
        words = ["generate", str(tmp_path / "source"), "--days", "1", "--scale", "0.01", *options]
        done = CliRunner().invoke(cli, ["source", *words])
        return done.exit_code, done.stdout + str(done.exception or "")

    assert generate_command("--hours", "2")[0] == 0
    before = contents(tmp_path / "source")
    code, said = generate_command("--hours", "2")
    assert code == 0 and "nothing to do" in said
    code, said = generate_command("--hours", "1", "--seed", "3")
    assert code and "--days 1 --hours 2 --scale 0.01 --seed 0" in said and "--force" in said
    assert contents(tmp_path / "source") == before
    assert generate_command("--hours", "3")[0] == 0, "a longer one goes on with the same bytes"
    assert generate_command("--hours", "1", "--seed", "3", "--force")[0] == 0
    assert contents(tmp_path / "source") != before


def test_another_seed_gives_another_shop(source: Source, tmp_path: Path) -> None:
    small(tmp_path / "other", seed=8)
    ours, theirs = contents(source.root), contents(tmp_path / "other")
    assert not {name for name in ours if name.startswith("cdc/") and ours[name] == theirs.get(name)}


def test_more_hours_leave_the_snapshot_and_the_first_hours_as_they_are(source: Source, tmp_path: Path) -> None:
    small(tmp_path / "longer", hours=30)
    ours, longer = contents(source.root), contents(tmp_path / "longer")
    assert {name for name in ours if longer.get(name) != ours[name]} == {"generated.json"}


# The layout


@pytest.mark.parametrize("topic", FEEDS)
def test_a_snapshot_is_a_delta_table_with_the_declared_columns(source: Source, topic: str) -> None:
    table, feed = DeltaTable(source.root / "snapshot" / FEEDS[topic].name), FEEDS[topic]
    assert table.version() == 0
    declared = [(column.name, arrow_type(column), not column.required) for column in feed.columns]
    assert [(field.name, field.type, field.nullable) for field in source.table(topic).schema] == declared
    assert table.count() == len(source.snapshot(topic)) == source.summary.rows[feed.name]


@pytest.mark.parametrize("topic", FEEDS)
def test_statistics_in_the_log_are_true(source: Source, topic: str) -> None:
    key = FEEDS[topic].keys[0]
    keys = [row[key] for row in source.snapshot(topic)]
    (file,) = pa.table(
        DeltaTable(source.root / "snapshot" / FEEDS[topic].name).get_add_actions(flatten=True)
    ).to_pylist()
    assert (file["num_records"], file[f"min.{key}"], file[f"max.{key}"]) == (len(keys), min(keys), max(keys))
    assert file["size_bytes"] == (source.root / "snapshot" / FEEDS[topic].name / file["path"]).stat().st_size


@pytest.mark.parametrize("topic", FEEDS)
def test_keys_are_unique_and_required_columns_filled(source: Source, topic: str) -> None:
    key, rows = FEEDS[topic].keys[0], source.snapshot(topic)
    assert len({row[key] for row in rows}) == len(rows)
    assert not [row for row in rows if any(row[c.name] is None for c in FEEDS[topic].columns if c.required)]


def test_busy_feeds_have_a_file_for_every_hour_and_dimensions_for_some(weeks: Source) -> None:
    hours = [f"2025-11-30T{hour:02}.json" for hour in range(24)]
    for topic in FEEDS:
        listed = [file.name for file in weeks.files(topic)]
        assert listed == hours if topic in EVERY_HOUR else 2 <= len(listed) <= 12


def test_every_line_is_one_that_the_lake_accepts(weeks: Source, tmp_path: Path) -> None:
    for topic, feed in FEEDS.items():
        results = [decode_file(file, feed, file.stem, tmp_path / "decoded.parquet") for file in weeks.files(topic)]
        assert not [rejected for result in results for rejected in result.rejected]
        assert sum(result.changes for result in results) == weeks.summary.lines[topic] > 0


def test_systems_write_decimals_and_timestamps_each_in_their_way(source: Source) -> None:
    lines = {topic: source.files(topic)[0].read_text().splitlines()[0] for topic in FEEDS}
    assert '"order_total": "' not in lines["orders"]
    assert '"unit_price": "' in lines["order_items"]
    moments = {topic: re.findall(r'"(?:updated_at|ingested_at)": "([^"]*)"', line)[-1] for topic, line in lines.items()}
    shapes = {re.sub(r"\d+", "0", moment) for moment in moments.values()}
    assert shapes >= {"0-0-0T0:0:0.0Z", "0-0-0 0:0:0.0", "0-0-0T0:0:0.0", "0-0-0T0:0:0Z", "0-0-0 0:0:0"}


def test_text_that_json_must_escape_comes_back_whole(tmp_path: Path) -> None:
    name = 'Møller & Söhne, 27" \\ 11"'
    columns = {"supplier_id": [1], "supplier_name": [name], "country": [None], "lead_time_days": [3], "updated_at": [0]}
    files = ChangeFiles(tmp_path / "cdc", FEEDS["suppliers"], Style("s"), hours=range(1), every_hour=False)
    files.add(Images(table_of(FEEDS["suppliers"], columns), since=np.array([0]), until=np.array([NEVER])))
    files.write(range(1))
    row = {"supplier_id": 1, "supplier_name": name, "country": None, "lead_time_days": 3}
    written = json.loads((tmp_path / "cdc" / "1970-01-01T00.json").read_text())
    assert written == {"insert": row | {"updated_at": "1970-01-01T00:00:00"}}


# The hours follow from the snapshot


@pytest.mark.parametrize("topic", FEEDS)
def test_a_delete_names_the_row_as_it_is_and_an_insert_a_key_that_is_free(weeks: Source, topic: str) -> None:
    key = FEEDS[topic].keys[0]
    rows = {row[key]: row for row in weeks.snapshot(topic)}
    for change in weeks.changes(topic):
        if change.inserted:
            assert change.row[key] not in rows
            rows[change.row[key]] = change.row
        else:
            assert rows.pop(change.row[key]) == change.row


@pytest.mark.parametrize("topic", FEEDS)
def test_a_line_is_in_the_hour_it_arrived(weeks: Source, topic: str) -> None:
    arrival = "ingested_at" if topic in EVERY_HOUR else "updated_at"
    for change in weeks.changes(topic):
        if change.inserted:
            assert change.hour <= change.row[arrival] < change.hour + HOUR


def test_the_snapshot_has_nothing_from_the_hours_of_changes(weeks: Source) -> None:
    for topic in EVERY_HOUR:
        assert max(row["ingested_at"] for row in weeks.snapshot(topic)) < FIRST_HOUR


# The habits of the shop


def test_orders_go_the_ways_orders_go(weeks: Source) -> None:
    steps = {(old["order_status"], new["order_status"]) for _, old, new in weeks.updates("orders")}
    assert steps >= {
        ("pending", "confirmed"),
        ("confirmed", "shipped"),
        ("shipped", "delivered"),
        ("delivered", "returned"),
        ("pending", "cancelled"),
        ("confirmed", "cancelled"),
    }
    assert not {old for old, new in steps if old in {"cancelled", "returned"} and new != old}


def test_orders_of_weeks_ago_still_change(weeks: Source) -> None:
    ages = [hour - new["created_at"] for hour, _, new in weeks.updates("orders")]
    assert max(ages) > timedelta(weeks=2)


def test_an_order_changes_in_the_hour_it_is_created(weeks: Source) -> None:
    assert [new for hour, _, new in weeks.updates("orders") if new["created_at"] >= hour]


def test_one_key_changes_several_times_in_a_file(weeks: Source) -> None:
    lines = Counter((change.hour, change.row["order_id"]) for change in weeks.changes("orders"))
    assert max(lines.values()) >= 4


def test_a_shipping_cost_is_corrected_without_a_new_status(weeks: Source) -> None:
    corrected = [
        (old, new)
        for _, old, new in weeks.updates("orders")
        if old["order_status"] == new["order_status"]
        and new["order_status"]
        and new["order_total"]
        and new["shipping_cost"]
    ]
    assert corrected
    for old, new in corrected:
        assert abs(new["order_total"] - old["order_total"]) == new["shipping_cost"] - old["shipping_cost"] > 0


@pytest.mark.parametrize("topic", sorted(EVERY_HOUR))
def test_some_rows_are_deleted_for_good(weeks: Source, topic: str) -> None:
    key = FEEDS[topic].keys[0]
    last = {change.row[key]: change.inserted for change in weeks.changes(topic)}
    gone = sum(not inserted for inserted in last.values())
    assert 0 < gone < 0.02 * len(last)


def test_a_deleted_order_takes_its_lines_along(weeks: Source) -> None:
    def deleted(topic: str, key: str) -> set[int]:
        last = {change.row[key]: change for change in weeks.changes(topic)}
        return {change.row["order_id"] for change in last.values() if not change.inserted}

    with_lines = {row["order_id"] for row in weeks.snapshot("order_items")}
    assert deleted("orders", "order_id") & with_lines <= deleted("order_items", "order_item_id")


def test_lines_arrive_in_the_hour_of_their_order_or_up_to_an_hour_later(weeks: Source) -> None:
    created = {c.row["order_id"]: c.row["created_at"] for c in weeks.changes("orders") if c.inserted}
    first = {change.row["order_item_id"]: change for change in reversed(weeks.changes("order_items"))}
    hours_later = Counter(
        (change.hour - created[order].replace(minute=0, second=0, microsecond=0)) // HOUR
        for change in first.values()
        if change.inserted and (order := change.row["order_id"]) in created and created[order] >= FIRST_HOUR
    )
    assert hours_later[0] > hours_later[1] > 0.05 * hours_later[0]


def test_clicks_arrive_late_a_few_by_many_hours(weeks: Source) -> None:
    delays = [row["ingested_at"] - row["event_timestamp"] for row in weeks.snapshot("clickstream_events")]
    assert min(delays) > timedelta(0)
    assert 0.02 < sum(delay > HOUR for delay in delays) / len(delays) < 0.1
    assert max(delays) > 12 * HOUR


@pytest.mark.parametrize(
    ("topic", "column", "dimension"),
    [
        ("order_items", "product_id", "products"),
        ("clickstream_events", "product_id", "products"),
        ("orders", "user_id", "customers"),
        ("clickstream_events", "user_id", "customers"),
    ],
)
def test_a_few_rows_name_what_the_catalogue_does_not_know_yet(
    weeks: Source, topic: str, column: str, dimension: str
) -> None:
    known = {row[FEEDS[dimension].keys[0]] for row in weeks.snapshot(dimension)}
    entered_later = {c.row[FEEDS[dimension].keys[0]] for c in weeks.changes(dimension) if c.inserted} - known
    named = Counter(row[column] for row in weeks.snapshot(topic) if row[column] is not None)
    unknown = {key: rows for key, rows in named.items() if key not in known}
    assert 0 < sum(unknown.values()) < 0.05 * sum(named.values())
    assert entered_later
    assert dimension == "customers" or entered_later & unknown.keys()


@pytest.mark.parametrize(
    ("topic", "column"),
    [(topic, column.name) for topic, feed in FEEDS.items() for column in feed.columns if not column.required],
)
def test_every_optional_column_is_sometimes_null_and_mostly_not(weeks: Source, topic: str, column: str) -> None:
    values = weeks.table(topic)[column]
    assert 0 < values.null_count < len(values) * (0.9 if column == "coupon_code" else 0.7)


@pytest.mark.parametrize(
    ("topic", "is_noise"),
    [
        ("orders", lambda row: row["order_status"] == "draft"),
        ("orders", lambda row: row["order_status"] == "fraud_review"),
        ("orders", lambda row: (row["order_total"] or 0) < 0),
        ("order_items", lambda row: row["quantity"] == 0),
        ("order_items", lambda row: row["unit_price"] < 0),
        ("clickstream_events", lambda row: row["event_type"] == "scroll"),
        ("customers", lambda row: row["customer_tier"] == "test"),
        ("products", lambda row: row["is_active"] is False),
        ("inventory_events", lambda row: row["event_type"] == "adjustment"),
    ],
)
def test_rows_that_silver_filters_are_there_but_few(weeks: Source, topic: str, is_noise: Callable[[Row], bool]) -> None:
    rows = weeks.snapshot(topic)
    assert 0 < sum(map(is_noise, rows)) < 0.06 * len(rows)


@pytest.mark.parametrize(
    ("topic", "column"), [("suppliers", "lead_time_days"), ("products", "list_price"), ("customers", "customer_tier")]
)
def test_dimensions_change(weeks: Source, topic: str, column: str) -> None:
    assert [new for _, old, new in weeks.updates(topic) if old[column] != new[column]]


def test_a_customer_leaves(weeks: Source) -> None:
    last = {change.row["customer_id"]: change.inserted for change in weeks.changes("customers")}
    assert not all(last.values())


# Volumes and numbers that make sense


@pytest.mark.parametrize(
    ("topic", "public"),
    [("orders", 1709), ("order_items", 753), ("clickstream_events", 1367), ("inventory_events", 1030)],
)
def test_an_hour_has_the_volume_of_the_public_data_set_times_scale(weeks: Source, topic: str, public: int) -> None:
    assert weeks.summary.lines[topic] / 24 == pytest.approx(public * 0.06, rel=0.1)


def test_an_order_costs_its_lines_less_discount_plus_shipping(weeks: Source) -> None:
    goods: defaultdict[int, Decimal] = defaultdict(Decimal)
    for line in weeks.snapshot("order_items"):
        goods[line["order_id"]] += line["quantity"] * line["unit_price"] * (100 - (line["discount_pct"] or 0)) / 100
    orders = [row for row in weeks.snapshot("orders") if row["order_total"] is not None and row["order_id"] in goods]
    fitting = sum(
        abs(goods[row["order_id"]] - (row["discount_amount"] or 0) + (row["shipping_cost"] or 0) - row["order_total"])
        < Decimal("0.1")
        for row in orders
    )
    assert fitting > 0.95 * len(orders)


@pytest.mark.parametrize(
    ("table", "level", "shares"),
    [
        (
            "gold_inventory_risk",
            "stock_risk_level",
            {"CRITICAL": (0.01, 0.2), "WARNING": (0.03, 0.3), "OK": (0.5, 0.95)},
        ),
        (
            "gold_product_demand_surge",
            "demand_alert",
            {"SURGE_STOCKOUT_RISK": (0, 0.2), "WARNING": (0, 0.2), "OK": (0.5, 1)},
        ),
    ],
)
def test_gold_has_products_of_every_level(
    gold: duckdb.DuckDBPyConnection, table: str, level: str, shares: dict[str, tuple[float, float]]
) -> None:
    found = dict(gold.sql(f"SELECT {level}, COUNT(*) / SUM(COUNT(*)) OVER () FROM {table} GROUP BY 1").fetchall())
    assert found.keys() == shares.keys()
    assert all(low < found[name] < high for name, (low, high) in shares.items())


@pytest.fixture(scope="module")
def gold(weeks: Source) -> duckdb.DuckDBPyConnection:
    """The project's own tables, as DuckDB computes them from the snapshot."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for table in registry():
        if isinstance(table, Feed):
            connection.register(table.name, weeks.table(table.topic))
        else:
            query = table.query.format(**{name: name for name in table.inputs})
            (translated,) = sqlglot.transpile(query, read="spark", write="duckdb")
            connection.execute(f"CREATE TABLE {table.name} AS {translated}")
    return connection


# Wrong use, and what a run leaves behind


@pytest.mark.parametrize(
    "wrong",
    [{"days": 0}, {"days": 3651}, {"hours": -1}, {"scale": 0}, {"scale": -1}, {"scale": float("nan")}, {"seed": -1}],
)
def test_arguments_that_make_no_source_are_refused_by_name(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(UsageError, match=f"{name}="):
        small(tmp_path / "source", **wrong)
    assert not list(tmp_path.iterdir())


def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="name a new folder"):
        small(tmp_path)
    assert contents(tmp_path) == {"thesis.txt": b"years of work"}


def test_a_file_is_not_a_target(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        small(tmp_path / "source")


def test_an_empty_folder_is_a_target(tmp_path: Path) -> None:
    small(tmp_path, hours=0)
    assert (tmp_path / "snapshot" / "bronze_orders").is_dir()


def test_an_earlier_source_is_replaced_and_nothing_else_is_left(source: Source, tmp_path: Path) -> None:
    small(tmp_path / "source", hours=5, seed=1)
    small(tmp_path / "source")
    assert contents(tmp_path / "source") == contents(source.root)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_an_earlier_source_outlives_a_run_that_fails(source: Source, tmp_path: Path) -> None:
    def fail(_what: str, done: int, _total: int) -> None:
        if done:
            raise RuntimeError("disk full")

    small(tmp_path / "source")
    with pytest.raises(RuntimeError, match="disk full"):
        small(tmp_path / "source", seed=1, progress=fail)
    assert contents(tmp_path / "source") == contents(source.root)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_progress_counts_up_to_the_end(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    small(tmp_path / "source", progress=lambda _what, done, total: seen.append((done, total)))
    assert seen == [(done, 3) for done in range(4)]


def test_the_summary_says_what_is_there(source: Source) -> None:
    summary = source.summary
    assert (summary.first_hour, summary.last_hour) == ("2025-11-30T00", "2025-11-30T02")
    assert summary.lines == {topic: len(source.changes(topic)) for topic in FEEDS}
    assert summary.bytes == sum(map(len, contents(source.root).values()))


def test_without_hours_there_is_a_snapshot_only(tmp_path: Path) -> None:
    summary = small(tmp_path / "source", hours=0)
    assert (summary.first_hour, summary.last_hour, sum(summary.lines.values())) == (None, None, 0)
    assert not [name for name in contents(tmp_path / "source") if name.startswith("cdc/")]


def test_the_smallest_shop_may_have_quiet_hours(tmp_path: Path) -> None:
    summary = small(tmp_path / "source", days=1, scale=1e-6)
    assert summary.lines["orders"] == 0
    assert (tmp_path / "source" / "cdc" / "orders" / "2025-11-30T00.json").read_bytes() == b""
