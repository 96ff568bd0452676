"""The demo source: a snapshot and hours of changes of an invented shop. The same arguments give the same bytes."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from demo.catalogue import draw_customers, draw_products, draw_suppliers
from demo.clicks import Clicks
from demo.orders import draw_lines, draw_orders, line_images, order_images
from demo.plan import Ids, Plan
from demo.stock import Stock
from demo.writers import ChangeFiles, Images, SnapshotTable, Style
from medallion.errors import UsageError
from medallion.hours import hour_from_number
from medallion.project import find_project

Progress = Callable[[str, int, int], None]  # what is being done, how much is done, of how much

MARKER = "generated.json"  # at the root of a generated source: the arguments it was made with

# No two systems write JSON alike.
_STYLES = {
    "orders": Style("ms", zone="Z"),
    "order_items": Style("ms", separator=" ", quoted=True),
    "clickstream_events": Style("us"),
    "inventory_events": Style("s", zone="Z"),
    "products": Style("s", separator=" ", zone="Z", quoted=True),
    "customers": Style("s", separator=" "),
    "suppliers": Style("s", zone="Z"),
}
_CHANGING_NOW_AND_THEN = ("products", "customers", "suppliers")  # no file for an hour without a change


@dataclass(frozen=True)
class Summary:
    """What was generated.

    rows: in the snapshot, by table; 0 for a feed that the shop does not have. lines: of changes in all hours together,
    by topic. first_hour, last_hour: None without hours of changes. bytes: of all files.
    """

    rows: Mapping[str, int]
    lines: Mapping[str, int]
    first_hour: str | None
    last_hour: str | None
    bytes: int

    def __str__(self) -> str:
        changes = f"{sum(self.lines.values()):,} changes from {self.first_hour} to {self.last_hour}"
        empty = [table for table, rows in self.rows.items() if table.removeprefix("bronze_") not in _STYLES]
        return (
            f"{sum(self.rows.values()):,} rows, {changes if self.first_hour else 'no changes'},"
            f" {self.bytes / 1e6:,.0f} MB" + (f"; the demo shop has no {', '.join(empty)}: empty" if empty else "")
        )


def _silent(_what: str, _done: int, _total: int) -> None: ...


def generate(target: Path, *, days: int, hours: int, scale: float, seed: int, progress: Progress = _silent) -> Summary:
    """Make a demo source in the folder ``target``; one that was generated there before is replaced once this is whole.

    days: length of the history in the snapshot. hours: of changes after it, from 2025-11-30T00 on. scale: 1 is the
    volume of the public data set. Raises UsageError for values that make no source, and for a ``target`` that holds
    anything else.
    """
    plan = Plan(days, hours, scale, seed)
    target = target.resolve()
    _check_replaceable(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as work:
        built = Path(work, "built")
        summary = _build(built, plan, progress)
        if target.exists():
            target.rename(Path(work, "replaced"))
        built.rename(target)
    return summary


def existing_plan(target: Path) -> Plan | None:
    """What the demo source in the folder ``target`` was made with; None where there is none."""
    try:
        return Plan(**json.loads((target / MARKER).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _check_replaceable(target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file: name a folder for the demo source")
    if target.is_dir() and any(target.iterdir()) and not (target / MARKER).is_file():
        raise UsageError(f"{target} holds something else than a generated source: name a new folder, or empty it")


def _build(root: Path, plan: Plan, progress: Progress) -> Summary:
    identity = f"medallion-demo-source/{plan.days}/{plan.scale}/{plan.seed}"
    feeds = {feed.topic: feed for feed in find_project().registry().feeds}
    tables = {
        topic: SnapshotTable(
            root / "snapshot" / feed.name, feed, identity=f"{identity}/{feed.name}", written_at=plan.start
        )
        for topic, feed in feeds.items()
    }
    changes = {
        topic: ChangeFiles(
            root / "cdc" / topic,
            feed,
            _STYLES[topic],
            hours=plan.change_hours,
            every_hour=topic not in _CHANGING_NOW_AND_THEN,
        )
        for topic, feed in feeds.items()
        if topic in _STYLES  # the shop has no rows of any other feed: its table is empty
    }
    for done, (day, images_by_topic) in enumerate(_days(plan)):
        progress("days of the demo shop", done, len(plan.calendar))
        for topic, images in images_by_topic.items():
            tables[topic].append(images.before(plan.start))
            changes[topic].add(images)
        hours = range(max(day * 24, plan.change_hours.start), min((day + 1) * 24, plan.change_hours.stop))
        for files in changes.values() if hours else ():
            files.write(hours)
    for table in tables.values():
        table.close()
    (root / MARKER).write_text(json.dumps(asdict(plan)) + "\n", encoding="utf-8")
    progress("days of the demo shop", len(plan.calendar), len(plan.calendar))
    return Summary(
        rows={feed.name: tables[topic].rows for topic, feed in feeds.items()},
        lines={topic: files.lines for topic, files in changes.items()},
        first_hour=hour_from_number(plan.change_hours[0]) if plan.hours else None,
        last_hour=hour_from_number(plan.change_hours[-1]) if plan.hours else None,
        bytes=sum(file.stat().st_size for file in root.rglob("*") if file.is_file()),
    )


def _days(plan: Plan) -> Iterator[tuple[int, dict[str, Images]]]:
    """The row images that come into being on each day; those of the catalogue all come with the first."""
    suppliers = draw_suppliers(plan)
    products = draw_products(plan, suppliers)
    customers = draw_customers(plan)
    stock, clicks, ids = Stock(plan, products), Clicks(plan, products, customers), Ids()
    images = {"suppliers": suppliers.images, "products": products.images, "customers": customers.images}
    for day in plan.calendar:
        orders = draw_orders(plan, day, ids, customers)
        lines = draw_lines(plan, day, ids, orders, products)
        images["orders"] = order_images(plan, day, orders, lines)
        images["order_items"] = line_images(plan, day, orders, lines)
        images["inventory_events"] = stock.images(day, ids, orders, lines)
        images["clickstream_events"] = clicks.images(day, ids)
        yield day, images
        images = {}
