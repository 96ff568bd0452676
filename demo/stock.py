"""Movements of stock: what orders take and give back, and what the warehouses order anew."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from demo.catalogue import WAREHOUSES, Products
from demo.chance import Floats, rarely
from demo.orders import JOURNEYS, LINES_WEIGHTS, ORDERS_PER_HOUR, QUANTITY_WEIGHTS, Lines, Orders
from demo.plan import DAY, SECOND, Ids, Plan
from demo.writers import NEVER, Images, Ints

_EVENTS = ("restock", "sale_reserve", "cancellation_restock", "return_restock", "adjustment")
_RESTOCK, _SALE, _CANCELLATION, _RETURN, _ADJUSTMENT = range(len(_EVENTS))
_ADJUSTMENTS_PER_HOUR = 20
_TYPICAL_COVER = 6  # how many times its lead time the stock of a product lasts
_SMALLEST_LOT = 4
_LOT_DAYS = 1.0  # a lot is what sells in so many days


class _Movements(NamedTuple):
    """Movements of stock. shelf: in which of its product's warehouses, even between 0 and 1."""

    event: Ints
    product: Ints
    quantity: Ints
    moment: Ints
    shelf: Floats


class Stock:
    """Buys every product for some multiple of its lead time, then replaces what is sold, lot by lot."""

    def __init__(self, plan: Plan, products: Products) -> None:
        self._plan, self._products = plan, products
        rng = plan.rng("stock")
        share = np.diff(products.odds, prepend=0)
        lines_a_day = ORDERS_PER_HOUR * 24 * plan.scale * _mean(LINES_WEIGHTS) * share
        units_a_day = lines_a_day * _mean(QUANTITY_WEIGHTS)
        units_a_selling_day = units_a_day / -np.expm1(-lines_a_day)
        cover = products.lead_days * rng.lognormal(np.log(_TYPICAL_COVER), 0.8, len(share))
        self._opening = np.ceil(cover * units_a_selling_day).astype(np.int64)
        replaced = units_a_day * (1 - _share_ending("cancelled") - _share_ending("returned"))
        self._lot = np.maximum(np.ceil(replaced * _LOT_DAYS), _SMALLEST_LOT).astype(np.int64)
        self._lots_a_day = replaced / self._lot
        self._phase = rng.random(len(share))

    def images(self, day: int, ids: Ids, orders: Orders, lines: Lines) -> Images:
        """The images of all movements that begin on ``day``, returns in weeks to come included."""
        rng = self._plan.rng("inventory_events", day)
        parts = [*_sold(rng, orders, lines), self._restock(rng, day), self._adjust(rng, day)]
        if day == self._plan.calendar.start:
            parts.insert(0, self._opening_stock(day))
        return self._book(rng, ids, _Movements(*map(np.concatenate, zip(*parts, strict=True))))

    def _opening_stock(self, day: int) -> _Movements:
        """What lies on every shelf when the history begins: the product's stock, evenly."""
        shelves = self._products.shelves
        shelf, product = np.nonzero(np.arange(shelves.max())[:, None] < shelves)
        quantity = np.ceil(self._opening / shelves).astype(np.int64)[product]
        return _movements(
            _RESTOCK, product, quantity, np.full(len(product), day * DAY), (shelf + 0.5) / shelves[product]
        )

    def _restock(self, rng: np.random.Generator, day: int) -> _Movements:
        """As many lots of each product as have come due on ``day``: the sales of the days before, on average."""
        lots = [np.floor(d * self._lots_a_day + self._phase).astype(np.int64) for d in (day, day + 1)]
        product = np.repeat(np.arange(len(self._lot)), lots[1] - lots[0])
        moment = day * DAY + rng.integers(0, DAY, len(product))
        return _movements(_RESTOCK, product, self._lot[product], moment, rng.random(len(product)))

    def _adjust(self, rng: np.random.Generator, day: int) -> _Movements:
        """Corrections after a count of the shelves: one to three units found, or lost."""
        count = rng.poisson(_ADJUSTMENTS_PER_HOUR * 24 * self._plan.scale)
        product = rng.integers(0, len(self._lot), count)
        quantity = rng.integers(1, 4, count) * rng.choice([-1, 1], count)
        moment = day * DAY + rng.integers(0, DAY, count)
        return _movements(_ADJUSTMENT, product, quantity, moment, rng.random(count))

    def _book(self, rng: np.random.Generator, ids: Ids, moved: _Movements) -> Images:
        count = len(moved.moment)
        moment = moved.moment // SECOND * SECOND
        since = moment + rng.integers(1, 90, count) * SECOND
        until = rarely(rng, 0.003, since, 150_000)
        inventory_event_id = ids.take("inventory_events", count)
        shelf = (moved.shelf * self._products.shelves[moved.product]).astype(np.int64)
        warehouse_id = (self._products.warehouse[moved.product] + shelf) % WAREHOUSES + 1

        def columns(rows: Ints) -> Mapping[str, Any]:
            return {
                "inventory_event_id": inventory_event_id[rows],
                "product_id": moved.product[rows] + 1,
                "warehouse_id": warehouse_id[rows],
                "event_type": pa.array(_EVENTS).take(pa.array(moved.event[rows])),
                "quantity_change": moved.quantity[rows],
                "event_timestamp": moment[rows],
                "ingested_at": since[rows],
            }

        return self._plan.images("inventory_events", since, until, columns)


def _sold(rng: np.random.Generator, orders: Orders, lines: Lines) -> list[_Movements]:
    """What each line takes from its shelf, and puts back there when its order is cancelled or returned."""
    shelf = rng.random(len(lines.id))
    cancelled, returned = orders.reaching("cancelled"), orders.reaching("returned")
    parts = []
    for event, sign, by_order in ((_SALE, -1, orders.created), (_CANCELLATION, 1, cancelled), (_RETURN, 1, returned)):
        moment = by_order[lines.order]
        moves = np.flatnonzero((moment < NEVER) & (lines.quantity > 0))
        parts.append(_movements(event, lines.product[moves], sign * lines.quantity[moves], moment[moves], shelf[moves]))
    return parts


def _movements(event: int, product: Ints, quantity: Ints, moment: Ints, shelf: Floats) -> _Movements:
    return _Movements(np.full(len(product), event), product, quantity, moment, shelf)


def _mean(weights: tuple[int, ...]) -> float:
    """The mean of 1, 2, 3 and so on, drawn with ``weights``."""
    return float(np.average(np.arange(len(weights)) + 1, weights=weights))


def _share_ending(status: str) -> float:
    """The share of orders whose journey ends in ``status``."""
    ending = sum(weight for journey, weight in JOURNEYS.items() if journey.endswith(status))
    return ending / sum(JOURNEYS.values())
