"""Orders and their lines. An order's whole journey is drawn on the day it is created."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from demo.catalogue import Customers, Products
from demo.chance import Choice, busy_moments, nulled, odds, pick, rarely, waits
from demo.plan import Ids, Plan
from demo.writers import HOUR, NEVER, Images, Ints

ORDERS_PER_HOUR = 301
LINES_WEIGHTS = (31, 27, 20, 13, 6, 3)  # 1 to 6 lines an order
QUANTITY_WEIGHTS = (62, 23, 9, 4, 2)  # 1 to 5 units a line

STATUSES = ("pending", "confirmed", "shipped", "delivered", "cancelled", "returned", "draft", "fraud_review")
JOURNEYS = {
    "pending confirmed shipped delivered": 34.5,
    "confirmed shipped delivered": 27,  # paid at once
    "pending confirmed shipped": 5,  # nobody saw the parcel arrive
    "confirmed shipped": 4,
    "pending confirmed shipped delivered returned": 3,
    "confirmed shipped delivered returned": 2.5,
    "pending": 6,
    "pending cancelled": 5,
    "pending confirmed cancelled": 3,
    "confirmed cancelled": 3.5,
    "pending confirmed shipped cancelled": 1,
    "pending fraud_review confirmed shipped delivered": 1.5,
    "pending fraud_review cancelled": 0.5,
    "pending fraud_review": 0.5,
    "draft pending confirmed shipped delivered": 1,
    "draft": 2,
}
_JOURNEY_ODDS = odds(list(JOURNEYS.values()))
_STEPS = 5
_NONE = -1  # the status of a step that is not taken
_STATUS_AT = np.array(
    [([STATUSES.index(status) for status in journey.split()] + [_NONE] * _STEPS)[:_STEPS] for journey in JOURNEYS]
)
_MEAN_WAIT = np.array([900, 2_400, 72_000, 200_000, 130_000, 1_000_000, 0, 1_800])  # seconds, by status

_PAYMENTS = Choice.of({"credit_card": 48, "paypal": 27, "bank_transfer": 12, "gift_card": 6, "invoice": 6, None: 1})
_COUPONS = pa.array([None, "WELCOME10", "THANKYOU5", "AUTUMN15"])
_COUPON_PERCENT = np.array([0, 10, 5, 15])
_COUPON_ODDS = odds((82, 7, 7, 4))
_SHIPPING = np.array([499, 799, 1299])  # cents
_SHIPPING_ODDS = odds((60, 30, 10))
_FREE_SHIPPING_FROM = 15_000
_SURCHARGE = 250  # what the carrier adds for a parcel that weighs more than was said

_LINES_ODDS = odds(LINES_WEIGHTS)
_QUANTITY_ODDS = odds(QUANTITY_WEIGHTS)
_DISCOUNTS = np.array([0, 500, 1000, 1500, 2000, 2500])  # hundredths of a percent
_DISCOUNT_ODDS = odds((62, 14, 12, 6, 4, 2))


@dataclass(frozen=True)
class Orders:
    """The orders created on a day: arrays by order, ``status`` and ``reached`` by order and step.

    customer: index. lag: from a moment until the source has it. status: index of STATUSES. reached: when, NEVER for
    a step not taken. surcharged: when the shipping cost is corrected, or NEVER. deleted: when the source deletes the
    order, or NEVER.
    """

    id: Ints
    customer: Ints
    created: Ints
    lag: Ints
    status: Ints
    reached: Ints
    surcharged: Ints
    deleted: Ints

    def reaching(self, status: str) -> Ints:
        """When each order gets into ``status``, NEVER if it does not or is deleted before."""
        gets_there = (self.status == STATUSES.index(status)) & (self.reached < (self.deleted - self.lag)[:, None])
        moment: Ints = np.where(gets_there, self.reached, NEVER).min(axis=1)
        return moment


@dataclass(frozen=True)
class Lines:
    """The lines of a day's orders. order, product: indices. price: cents. discount: hundredths of a percent."""

    id: Ints
    order: Ints
    product: Ints
    quantity: Ints
    price: Ints
    discount: Ints


def draw_orders(plan: Plan, day: int, ids: Ids, customers: Customers) -> Orders:
    """The orders created on ``day``, with all that will become of them."""
    rng = plan.rng("orders", day)
    created = busy_moments(rng, ORDERS_PER_HOUR * plan.scale, day) // 1000 * 1000
    count = len(created)
    status = _STATUS_AT[pick(_JOURNEY_ODDS, rng.random(count))]
    wait = waits(rng, _MEAN_WAIT[status], status.shape)
    wait[:, 0] = 0
    lag = rng.integers(1_000, 60_000, count) * 1000
    return Orders(
        id=ids.take("orders", count),
        customer=customers.draw(rng, count),
        created=created,
        lag=lag,
        status=status,
        reached=np.where(status == _NONE, NEVER, created[:, None] + np.cumsum(wait, axis=1)),
        surcharged=rarely(rng, 0.13, created, 60_000),
        deleted=rarely(rng, 0.007, created + lag + 2 * HOUR, 300_000),
    )


def draw_lines(plan: Plan, day: int, ids: Ids, orders: Orders, products: Products) -> Lines:
    """The lines of ``orders``; a few have no quantity, or a negative price."""
    rng = plan.rng("order_items", day)
    lines = 1 + pick(_LINES_ODDS, rng.random(len(orders.id)))
    order = np.repeat(np.arange(len(orders.id)), lines)
    count = len(order)
    product = pick(products.odds, rng.random(count))
    quantity = 1 + pick(_QUANTITY_ODDS, rng.random(count))
    price = products.price[product] * np.where(rng.random(count) < 0.1, 95, 100) // 100
    return Lines(
        id=ids.take("order_items", count),
        order=order,
        product=product,
        quantity=np.where(rng.random(count) < 0.003, 0, quantity),
        price=np.where(rng.random(count) < 0.002, -price, price),
        discount=_DISCOUNTS[pick(_DISCOUNT_ODDS, rng.random(count))],
    )


def order_images(plan: Plan, day: int, orders: Orders, lines: Lines) -> Images:
    """The images of ``orders``: one per status reached, and one for a corrected shipping cost."""
    rng = plan.rng("payments", day)
    count = len(orders.id)
    goods = _goods(lines, count)
    coupon = pick(_COUPON_ODDS, rng.random(count))
    discount = goods * _COUPON_PERCENT[coupon] // 100
    shipping = np.where(goods < _FREE_SHIPPING_FROM, _SHIPPING[pick(_SHIPPING_ODDS, rng.random(count))], 0)
    sign = np.where(rng.random(count) < 0.002, -1, 1)  # a refund booked as an order
    user_id = nulled(rng, orders.customer + 1, 0.01)
    payment = _PAYMENTS.draw(rng.random(count))
    no_status, no_total, no_shipping, no_discount = (rng.random((count, 4)) < (0.001, 0.002, 0.004, 0.6)).T
    no_discount &= discount == 0
    status, since, until = _course(orders)

    def columns(images: Ints) -> Mapping[str, Any]:
        order = images // since.shape[1]
        updated_at = since.flat[images] - orders.lag[order]
        shipped_for = shipping[order] + _SURCHARGE * (updated_at >= orders.surcharged[order])
        total = sign[order] * (goods[order] - discount[order] + shipped_for)
        row = pa.array(order)
        return {
            "order_id": orders.id[order],
            "user_id": user_id.take(row),
            "order_status": pa.array(STATUSES).take(pa.array(status.flat[images], mask=no_status[order])),
            "order_total": pa.array(total, mask=no_total[order]),
            "discount_amount": pa.array(discount[order], mask=no_discount[order]),
            "shipping_cost": pa.array(shipped_for, mask=no_shipping[order]),
            "payment_method": payment.take(row),
            "coupon_code": _COUPONS.take(pa.array(coupon[order])),
            "created_at": orders.created[order],
            "updated_at": updated_at,
            "ingested_at": since.flat[images],
        }

    return plan.images("orders", since.ravel(), until.ravel(), columns)


def line_images(plan: Plan, day: int, orders: Orders, lines: Lines) -> Images:
    """The images of ``lines``: they come after their order, some an hour; a few are changed or deleted later."""
    rng = plan.rng("order_items arriving", day)
    orders_later = np.where(rng.random(len(orders.id)) < 0.1, HOUR, 0) + rng.integers(0, 20_000, len(orders.id)) * 1000
    inserted = (orders.created + orders.lag + orders_later)[lines.order]
    deleted = np.minimum(orders.deleted[lines.order], rarely(rng, 0.004, inserted, 200_000))
    one_more = rarely(rng, 0.003, inserted, 40_000)
    discount = pa.array(lines.discount, mask=lines.discount == 0)
    since = np.concatenate([inserted, one_more])
    until = np.concatenate([np.minimum(one_more, deleted), deleted])

    def columns(images: Ints) -> Mapping[str, Any]:
        line, is_changed = images % len(lines.id), images >= len(lines.id)
        return {
            "order_item_id": lines.id[line],
            "order_id": orders.id[lines.order[line]],
            "product_id": lines.product[line] + 1,
            "quantity": lines.quantity[line] + is_changed,
            "unit_price": lines.price[line],
            "discount_pct": discount.take(pa.array(line)),
            "ingested_at": since[images],
        }

    return plan.images("order_items", since, until, columns)


def _goods(lines: Lines, orders: int) -> Ints:
    """Cents to pay for the lines of each order."""
    net = np.maximum(lines.quantity * lines.price * (10_000 - lines.discount) // 10_000, 0)
    return np.bincount(lines.order, weights=net, minlength=orders).astype(np.int64)


def _course(orders: Orders) -> tuple[Ints, Ints, Ints]:
    """Status, since and until of every image, by order and in the order they follow each other."""
    count = len(orders.id)
    moment = np.column_stack([orders.reached, orders.surcharged])
    sequence = np.argsort(moment, axis=1, kind="stable")
    moment = np.take_along_axis(moment, sequence, axis=1)
    status = np.take_along_axis(np.column_stack([orders.status, np.full(count, _NONE)]), sequence, axis=1)
    # A surcharge does not change the status, and is never what an order starts with.
    status = np.where(sequence == _STEPS, np.roll(status, 1, axis=1), status)
    since = moment + np.where(moment == NEVER, 0, orders.lag[:, None])
    replaced = np.column_stack([since[:, 1:], np.full(count, NEVER)])
    return status, since, np.minimum(replaced, orders.deleted[:, None])
