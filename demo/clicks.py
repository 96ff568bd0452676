"""Clicks: visits to the shop, of which most look around, some put things in the cart and a few buy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from demo.catalogue import COUNTRIES, REGIONS, Customers, Products
from demo.chance import Choice, busy_moments, nulled, odds, pick, rarely
from demo.plan import SECOND, Ids, Plan
from demo.writers import Images, Ints

_VISITS_PER_HOUR = 340
_CLICKS_PER_VISIT = 4

_STAGES = ("page_view", "product_view", "add_to_cart", "begin_checkout", "purchase")
_DEEPEST_ODDS = odds((15, 35, 15, 12, 23))  # the last stage that a visit gets to
_NOISE = Choice.of({"scroll": 6, "hover": 3, "heartbeat": 3, "video_play": 1, None: 0.5})
_NOISE_SHARE = 0.07

_PAGES = ("/", "/search", "/help", "/category/home", "/category/clothing", "/cart", "/checkout", "/checkout/thanks")
_PRODUCT_PAGES = len(_PAGES)  # from here on, a page per product
_STAGE_PAGE = np.array([0, _PRODUCT_PAGES, 5, 6, 7])
_REFERRERS = Choice.of({None: 40, "search": 30, "newsletter": 12, "social": 12, "partner": 6})
_DEVICES = Choice.of({"mobile": 58, "desktop": 34, "tablet": 7, None: 1})

_TRENDING_SHARE = 0.3  # of all looks at products, on the few that are talked about today
_TRENDING = 0.01  # of all products
_DELAY_ODDS = odds((94, 5, 1))
_DELAYS = np.array([(1, 60), (3_600, 6 * 3_600), (6 * 3_600, 48 * 3_600)])  # from and to, in seconds


class Clicks:
    """The tracker in the shop's pages."""

    def __init__(self, plan: Plan, products: Products, customers: Customers) -> None:
        self._plan, self._products, self._customers = plan, products, customers
        self._pages = pa.array([*_PAGES, *(f"/product/{n}" for n in range(1, len(products.price) + 1))])

    def images(self, day: int, ids: Ids) -> Images:
        """The images of the clicks of all visits that begin on ``day``; some arrive hours later, a few get deleted."""
        rng = self._plan.rng("clickstream_events", day)
        began = busy_moments(rng, _VISITS_PER_HOUR * self._plan.scale, day)
        visits = len(began)
        visit = np.repeat(np.arange(visits), 1 + rng.poisson(_CLICKS_PER_VISIT - 1, visits))
        stage = _stages(rng, visit, visits)
        product = self._products_seen(rng, visit, visits, stage)
        moment = began[visit] + _since_visit_began(rng, visit)
        since = moment + _delays(rng, visits)[visit]
        until = rarely(rng, 0.0025, since, 100_000)
        event_id = ids.take("clickstream_events", len(visit))
        event_type = _event_types(rng, stage)
        page = np.where(stage == 1, _PRODUCT_PAGES + product, _STAGE_PAGE[stage])
        page = np.where(stage == 0, rng.integers(0, 5, len(visit)), page)
        page_url = nulled(rng, self._pages.take(pa.array(page)), 0.004)
        customer = self._customers.draw(rng, visits)
        place = self._customers.place[customer]
        by_visit = {
            "user_id": nulled(rng, customer + 1, 0.28),
            "session_id": nulled(rng, pa.array([f"{day:x}-{n:05}" for n in range(visits)]), 0.003),
            "referrer": _REFERRERS.draw(rng.random(visits)),
            "device_type": _DEVICES.draw(rng.random(visits)),
            "geo_country": COUNTRIES.take(pa.array(place)),
            "geo_region": REGIONS.take(pa.array(place)),
        }

        def columns(rows: Ints) -> Mapping[str, Any]:
            return {name: values.take(pa.array(visit[rows])) for name, values in by_visit.items()} | {
                "event_id": event_id[rows],
                "event_type": event_type.take(pa.array(rows)),
                "page_url": page_url.take(pa.array(rows)),
                "product_id": pa.array(product[rows] + 1, mask=stage[rows] == 0),
                "event_timestamp": moment[rows],
                "ingested_at": since[rows],
            }

        return self._plan.images("clickstream_events", since, until, columns)

    def _products_seen(self, rng: np.random.Generator, visit: Ints, visits: int, stage: Ints) -> Ints:
        """A product per click: any when looking around, the one that the visit is about from the cart on."""
        products = len(self._products.price)
        trending = rng.choice(products, max(round(products * _TRENDING), 1), replace=False)

        def draw(count: int) -> Ints:
            usual = pick(self._products.odds, rng.random(count))
            return np.where(rng.random(count) < _TRENDING_SHARE, rng.choice(trending, count), usual)

        return np.where(stage > 1, draw(visits)[visit], draw(len(visit)))


def _stages(rng: np.random.Generator, visit: Ints, visits: int) -> Ints:
    """The index in _STAGES of each click: a visit goes down the list, as far as it gets."""
    deepest = pick(_DEEPEST_ODDS, rng.random(visits))
    stage = (rng.random(len(visit)) * (deepest[visit] + 1)).astype(np.int64)
    return stage[np.lexsort((stage, visit))]


def _since_visit_began(rng: np.random.Generator, visit: Ints) -> Ints:
    """How long after the first click of its visit each click comes, in microseconds."""
    elapsed = np.cumsum((rng.exponential(45, len(visit)) * SECOND).astype(np.int64))
    return elapsed - elapsed[np.searchsorted(visit, visit)]


def _delays(rng: np.random.Generator, visits: int) -> Ints:
    """How long the clicks of each visit take to arrive, in microseconds: hours where a device was offline."""
    delay = pick(_DELAY_ODDS, rng.random(visits))
    shortest, longest = _DELAYS[delay].T
    drawn: Ints = rng.integers(shortest * SECOND, longest * SECOND)
    return drawn


def _event_types(rng: np.random.Generator, stage: Ints) -> pa.Array:
    """The type of each click; some are of types that mean nothing to the business, or of none."""
    is_noise = pa.array(rng.random(len(stage)) < _NOISE_SHARE)
    return pc.if_else(is_noise, _NOISE.draw(rng.random(len(stage))), pa.array(_STAGES).take(pa.array(stage)))
