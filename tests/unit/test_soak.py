"""What the soak calls growing."""

import pytest

from tests.faults.soak import MAX_SLOPE, Day, slope


def week(first: float, growth: float) -> list[Day]:
    """Seven days whose hours grow by a share of the first day's; the first of all is slow, as it warms up."""
    days = [Day(number, cpu_seconds=[first * (1 + growth * number)] * 22) for number in range(7)]
    return [Day(0, cpu_seconds=[10 * first] * 22), *days]


@pytest.mark.parametrize(("growth", "grows"), [(0.0, False), (0.01, False), (0.05, True), (-0.05, False)])
def test_soak_names_days_that_grow_by_more_than_two_percent(growth: float, grows: bool) -> None:
    assert (slope(week(2.0, growth), "cpu_seconds") > MAX_SLOPE) is grows


def test_hour_that_was_struck_does_not_count() -> None:
    days = week(2.0, 0.0)
    days[-1].cpu_seconds[0] = 500.0
    assert slope(days, "cpu_seconds") == 0
