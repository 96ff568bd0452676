"""How chance is drawn: choices with odds, waiting times, busy hours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from demo.plan import DAY
from demo.writers import HOUR, NEVER, Ints

Floats = npt.NDArray[np.float64]

# How busy the shop is, 1 on average: by hour of the day, and by day of the week from Monday on.
_HOURLY = 1 - 0.2 * np.sin((np.arange(24) - 0.5) * np.pi / 12)
_WEEKLY = (0.95, 0.95, 0.97, 1.0, 1.08, 1.05, 1.0)
_MONDAY = 4  # 1970-01-05


@dataclass(frozen=True)
class Choice:
    """Strings, or null, with given odds."""

    values: pa.Array
    odds: Floats

    @classmethod
    def of(cls, weights: Mapping[str | None, float]) -> "Choice":
        """The choice among the keys of ``weights``."""
        return cls(pa.array(list(weights), pa.string()), odds(list(weights.values())))

    def draw(self, luck: Floats) -> pa.Array:
        """One value for each of ``luck``, even between 0 and 1."""
        return self.values.take(pa.array(pick(self.odds, luck)))


def odds(weights: npt.ArrayLike) -> Floats:
    """The running shares of ``weights``, the last of them 1."""
    running = np.cumsum(np.asarray(weights, dtype=np.float64))
    return np.asarray(running / running[-1])


def pick(odds: Floats, luck: Floats) -> Ints:
    """The index that each of ``luck``, even between 0 and 1, falls on."""
    return np.searchsorted(odds, luck, side="right").astype(np.int64)


def nulled(rng: np.random.Generator, values: Any, share: float) -> pa.Array:
    """``values``, an array of NumPy or Arrow, with ``share`` of them null."""
    lost = pa.array(rng.random(len(values)) < share)
    array = pa.array(values)
    return pc.if_else(lost, pa.scalar(None, array.type), array)


def waits(rng: np.random.Generator, mean_seconds: npt.ArrayLike, shape: int | tuple[int, ...]) -> Ints:
    """Waiting times in whole milliseconds, as microseconds: at least a second, mostly short, some very long."""
    spread = rng.lognormal(-0.5, 1.0, shape)  # 1 on average
    milliseconds: Ints = np.maximum(spread * np.asarray(mean_seconds) * 1000, 1000).astype(np.int64)
    return milliseconds * 1000


def rarely(rng: np.random.Generator, share: float, after: Ints, mean_seconds: float) -> Ints:
    """For ``share`` of the moments in ``after`` one that is later, NEVER for the others."""
    return np.where(rng.random(len(after)) < share, after + waits(rng, mean_seconds, len(after)), NEVER)


def busy_moments(rng: np.random.Generator, per_hour: float, day: int) -> Ints:
    """The moments in ``day`` at which something happens ``per_hour`` times in an average hour, in order."""
    counts = rng.poisson(per_hour * _HOURLY * _WEEKLY[(day - _MONDAY) % 7])
    hours = np.repeat(np.arange(24), counts)
    return np.sort(day * DAY + hours * HOUR + rng.integers(0, HOUR, len(hours)))
