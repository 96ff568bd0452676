"""Who and what the demo shop knows: suppliers, products and customers, as they are and as they change.

Index i of every array is the row with id i + 1. The last few products and customers are upcoming: sold or seen
from the first day on, but entered by their system only after the snapshot, a few per file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from demo.chance import Choice, Floats, nulled, odds, pick
from demo.plan import DAY, SECOND, Plan
from demo.writers import HOUR, NEVER, Flags, Images, Ints, feed, table_of

WAREHOUSES = 6

_LONG_AGO = 0  # since when the rows known at the snapshot are current
_SUPPLIERS = 200
_PRODUCTS = 5_000
_CUSTOMERS = 40_000
_UPCOMING_SHARE = 0.01

_TIERS = {"standard": 60, "silver": 22, "gold": 12, "platinum": 5, "test": 0.5, "staff": 0.3, None: 0.2}
_BRANDS: dict[str | None, float] = {
    **dict.fromkeys(("Alder", "Borealis", "Calder", "Dovetail", "Emberly", "Fjordline", "Grano", "Halden"), 8),
    **dict.fromkeys(("Ilva", "Juniper & Co", "Kestrel", "Lumen", "Møller", "Nordby", "Ostara", "Pellwood"), 4),
    None: 2,
}
_SUPPLIER_COUNTRIES = {"CN": 30, "DE": 18, "US": 15, "VN": 10, "IN": 9, "PL": 7, "TR": 6, "PT": 4, None: 4}
_SUPPLIER_NAMES = (
    ("Atlas", "Blue Harbour", "Cedar", "Delta", "Eastgate", "Foundry", "Greenfield", "Highland", "Ironbridge", "Jade"),
    ("Trading", "Works", "Supply", "Goods", "Imports", "Manufacturing", "Partners", "Wholesale"),
    ("Ltd", "GmbH", "Inc", "SA", "BV"),
)
# category: typical price in dollars, typical weight in kg, what is sold in it
_CATEGORIES: Mapping[str | None, tuple[float, float, tuple[str, ...]]] = {
    "Electronics": (140, 1.2, ("Headphones", 'Monitor 27"', "Speaker", "Keyboard", "Power Bank", "Webcam")),
    "Home": (45, 3.0, ("Lamp", "Rug", "Mirror", "Shelf", "Cushion", "Vase")),
    "Kitchen": (35, 1.5, ("Kettle", "Café Press", 'Pan 11"', "Knife Set", "Toaster", "Scale")),
    "Clothing": (40, 0.5, ("T-Shirt", "Jacket", "Jeans", "Scarf", "Socks", "Sweater")),
    "Shoes": (75, 1.0, ("Sneakers", "Boots", "Sandals", "Loafers")),
    "Beauty": (22, 0.3, ("Face Cream", "Shampoo", "Perfume", "Soap", "Brush")),
    "Sports": (55, 2.0, ("Yoga Mat", "Dumbbells", "Tent", "Bottle", "Racket", "Helmet")),
    "Toys": (28, 0.8, ("Puzzle", "Board Game", "Blocks", "Plush Bear", "Kite")),
    "Garden": (50, 4.0, ("Hose", "Planter", "Shears", "Grill", "Lantern")),
    "Office": (18, 0.7, ("Notebook", "Pen Set", "Desk Pad", "Binder", "Stapler")),
    None: (30, 1.0, ("Mystery Box", "Gift Card")),
}
_CATEGORY_SHARES = (14, 12, 11, 14, 8, 10, 10, 8, 6, 6, 1)
_PLACES = {
    ("US", "California"): 16,
    ("US", "Texas"): 11,
    ("US", "New York"): 10,
    ("US", "Washington"): 5,
    ("DE", "Bayern"): 8,
    ("DE", "Berlin"): 6,
    ("DE", "Nordrhein-Westfalen"): 8,
    ("GB", "England"): 12,
    ("GB", "Scotland"): 3,
    ("FR", "Île-de-France"): 7,
    ("FR", "Occitanie"): 3,
    ("ES", "Madrid"): 4,
    ("NL", None): 4,
    ("SG", None): 2,
    (None, None): 1,
}
COUNTRIES = pa.array([country for country, _ in _PLACES])
REGIONS = pa.array([region for _, region in _PLACES])


@dataclass(frozen=True)
class _Schedule:
    """When a feed has a file, counted from the first change hour, and what is in it at scale 1."""

    first: int
    every: int
    updates: float
    entries: float = 0
    removals: float = 0


_SCHEDULES = {
    "customers": _Schedule(first=0, every=3, updates=12, entries=5, removals=1),
    "products": _Schedule(first=1, every=4, updates=6, entries=1),
    "suppliers": _Schedule(first=2, every=6, updates=1),
}


@dataclass(frozen=True)
class Suppliers:
    """lead_days: days from order to delivery, also where the supplier's row does not say."""

    lead_days: Ints
    images: Images


@dataclass(frozen=True)
class Products:
    """price: cents. odds: running shares of sales. shelves: in how many warehouses it lies, from ``warehouse`` on."""

    price: Ints
    odds: Floats
    lead_days: Ints
    shelves: Ints
    warehouse: Ints
    images: Images


@dataclass(frozen=True)
class Customers:
    """known: how many are not upcoming. place: index into COUNTRIES and REGIONS."""

    known: int
    place: Ints
    images: Images

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """The indices of ``count`` buyers: the older an account, the more it buys; a few are upcoming ones."""
        buyers = (np.minimum(rng.random(count), rng.random(count)) * self.known).astype(np.int64)
        upcoming = rng.integers(self.known, len(self.place), count)
        return np.where(rng.random(count) < 0.005, upcoming, buyers)


def draw_suppliers(plan: Plan) -> Suppliers:
    """The suppliers; now and then a lead time changes."""
    rng = plan.rng("suppliers")
    versions = _versions(plan, "suppliers", _SUPPLIERS)
    first, second, third = _SUPPLIER_NAMES
    names = [f"{a} {b} {c}" for c in third for b in second for a in first]
    lead_days = np.minimum(1 + rng.geometric(0.15, _SUPPLIERS), 30)
    steady = {
        "supplier_id": np.arange(_SUPPLIERS) + 1,
        "supplier_name": names[:_SUPPLIERS],
        "country": Choice.of(_SUPPLIER_COUNTRIES).draw(rng.random(_SUPPLIERS)),
    }
    new_lead_days = 2 + (versions.luck * 28).astype(np.int64)
    images = versions.images("suppliers", steady, {"lead_time_days": (nulled(rng, lead_days, 0.02), new_lead_days)})
    return Suppliers(lead_days, images)


def draw_products(plan: Plan, suppliers: Suppliers) -> Products:
    """The products; every few hours some prices change, and an upcoming product is entered."""
    known, total = _sizes(_PRODUCTS * plan.scale**0.5)
    rng = plan.rng("products")
    versions = _versions(plan, "products", known, total - known)
    category = pick(odds(_CATEGORY_SHARES), rng.random(total))
    typical_price, typical_weight, things = zip(*_CATEGORIES.values(), strict=True)
    price = _ending_in_99(np.array(typical_price)[category] * 100 * rng.lognormal(0, 0.5, total))
    weight = np.array(typical_weight)[category] * 100 * rng.lognormal(0, 0.4, total)
    brand = Choice.of(_BRANDS).draw(rng.random(total))
    supplier = rng.integers(0, _SUPPLIERS, total)
    supplier_id = supplier + 1 + _SUPPLIERS * (rng.random(total) < 0.004)  # a few are of a supplier nobody entered
    steady = {
        "product_id": np.arange(total) + 1,
        "product_name": _product_names(rng, brand, [things[c] for c in category]),
        "category": pa.array(list(_CATEGORIES)).take(pa.array(category)),
        "brand": brand,
        "supplier_id": nulled(rng, supplier_id, 0.006),
        "cost_price": nulled(rng, (price * rng.uniform(0.45, 0.75, total)).astype(np.int64), 0.005),
        "weight_kg": nulled(rng, np.maximum(weight.astype(np.int64), 1), 0.02),
        "is_active": nulled(rng, rng.random(total) > 0.04, 0.01),
    }
    new_price = _ending_in_99(price[versions.row] * (0.8 + 0.4 * versions.luck))
    images = versions.images("products", steady, {"list_price": (nulled(rng, price, 0.005), new_price)})
    return Products(
        price=price,
        odds=odds((rng.permutation(total) + 10.0) ** -0.8),
        lead_days=suppliers.lead_days[supplier],
        shelves=rng.integers(1, 4, total),
        warehouse=rng.integers(0, WAREHOUSES, total),
        images=images,
    )


def draw_customers(plan: Plan) -> Customers:
    """The customers; every few hours some change their tier, some sign up, and one closes the account."""
    known, total = _sizes(_CUSTOMERS * plan.scale)
    rng = plan.rng("customers")
    versions = _versions(plan, "customers", known, total - known)
    place = pick(odds(list(_PLACES.values())), rng.random(total))
    tier = Choice.of(_TIERS)
    steady = {
        "customer_id": np.arange(total) + 1,
        "email": nulled(rng, pa.array([f"customer{n}@example.com" for n in range(1, total + 1)]), 0.01),
        "signup_date": nulled(rng, plan.start // DAY - rng.integers(1, 1500, total), 0.01),
        "geo_country": COUNTRIES.take(pa.array(place)),
        "geo_region": REGIONS.take(pa.array(place)),
    }
    tiers = (tier.draw(rng.random(total)), tier.draw(versions.luck))
    return Customers(known, place, versions.images("customers", steady, {"customer_tier": tiers}))


def _sizes(wanted: float) -> tuple[int, int]:
    """How many rows are known at the snapshot, and how many with the upcoming ones."""
    known = max(round(wanted), 100)
    return known, known + max(round(known * _UPCOMING_SHARE), 1)


def _ending_in_99(cents: Floats) -> Ints:
    return cents.astype(np.int64) // 100 * 100 + 99


def _product_names(rng: np.random.Generator, brand: pa.Array, things: Sequence[Sequence[str]]) -> list[str]:
    chosen = [options[int(luck * len(options))] for options, luck in zip(things, rng.random(len(things)), strict=True)]
    return [f"{b or 'Plain'} {t} {n:04}" for n, (b, t) in enumerate(zip(brand.to_pylist(), chosen, strict=True), 1)]


@dataclass(frozen=True)
class _Versions:
    """Every version of every row of a dimension.

    row: index of the row. is_update: false for the row as first entered. luck: what an update draws, even between
    0 and 1.
    """

    row: Ints
    since: Ints
    until: Ints
    is_update: Flags
    luck: Floats
    updated_at: Ints

    def images(self, topic: str, steady: Mapping[str, Any], changing: Mapping[str, tuple[pa.Array, Any]]) -> Images:
        """The row images. steady: columns by row. changing: columns by row as entered, and by version as updated."""
        row, is_update = pa.array(self.row), pa.array(self.is_update)
        columns = {name: pa.array(column).take(row) for name, column in steady.items()}
        columns |= {name: pc.if_else(is_update, new, first.take(row)) for name, (first, new) in changing.items()}
        columns["updated_at"] = pa.array(self.updated_at)
        return Images(table_of(feed(topic), columns), self.since, self.until)


def _versions(plan: Plan, topic: str, known: int, upcoming: int = 0) -> _Versions:
    """What happens to ``known`` rows, there from the beginning, and to ``upcoming`` ones that are entered later."""
    schedule, total = _SCHEDULES[topic], known + upcoming
    rng = plan.rng(f"{topic} entered")
    changed_before = plan.start - rng.integers(1, 300 * DAY // SECOND, total) * SECOND
    entry = schedule.first + schedule.every * (np.arange(upcoming) // _count(schedule.entries, plan.scale))
    entered = np.concatenate([np.full(known, _LONG_AGO), plan.start + entry * HOUR + _seconds(rng, upcoming)])
    removed = np.full(total, NEVER)
    row, since, luck = [np.arange(total)], [entered], [np.zeros(total)]
    for hour in range(schedule.first, plan.hours, schedule.every):
        rng = plan.rng(f"{topic} changes", hour)
        count = min(_count(schedule.updates, plan.scale), known)
        row.append(rng.choice(known, count, replace=False))
        since.append(plan.start + hour * HOUR + _seconds(rng, count))
        luck.append(rng.random(count))
        if schedule.removals:
            count = _count(schedule.removals, plan.scale)
            np.minimum.at(removed, rng.integers(0, known, count), plan.start + hour * HOUR + _seconds(rng, count))
    return _succession(np.concatenate(row), np.concatenate(since), np.concatenate(luck), removed, changed_before)


def _succession(row: Ints, since: Ints, luck: Floats, removed: Ints, changed_before: Ints) -> _Versions:
    """Versions in order, each current until the next one or until the moment its row is removed."""
    order = np.lexsort((since, row))
    row, since, luck, is_update = row[order], since[order], luck[order], order >= len(removed)
    replaced = np.append(np.where(row[1:] == row[:-1], since[1:], NEVER), NEVER)
    until = np.minimum(replaced, removed[row])
    updated_at = np.where(since == _LONG_AGO, changed_before[row], since)
    happens = since < until
    columns = (row, since, until, is_update, luck, updated_at)
    return _Versions(*(column[happens] for column in columns))


def _count(at_scale_1: float, scale: float) -> int:
    return max(math.ceil(at_scale_1 * scale), 1)


def _seconds(rng: np.random.Generator, count: int) -> Ints:
    """Moments within an hour, on whole seconds."""
    return rng.integers(0, 3600, count) * SECOND
