"""Hours: written one way, always UTC, and never anything else."""

import pytest

from medallion.errors import UsageError
from medallion.hours import hour_from_number, hour_number, hour_range, next_hour, parse_hour


@pytest.mark.parametrize(
    "text",
    [
        "2025-11-30",
        "2025-11-30T24",
        "2025-02-29T00",
        "2025-11-30T00:00",
        "2025-11-30t00",
        " 2025-11-30T00",
        "2025-11-30T00\n",
        "２０２５-11-30T00",
        "../../etc",
        "%2e%2e",
        "2025-11-30T00;rm -rf",
        "{{ ds }}",
        "",
        "x" * 10_000,
    ],
)
def test_what_is_not_an_hour_is_refused_with_the_form_it_should_have(text: str) -> None:
    with pytest.raises(UsageError, match="write YYYY-MM-DDTHH in UTC") as refusal:
        parse_hour(text)
    assert len(str(refusal.value)) < 300


def test_hour_number_converts_back_to_its_hour() -> None:
    assert hour_number("1970-01-02T01") == 25
    assert hour_from_number(hour_number("2025-11-30T07")) == "2025-11-30T07"


def test_hours_go_on_over_a_leap_day_and_a_year() -> None:
    assert next_hour("2024-02-28T23") == "2024-02-29T00"
    assert next_hour("2025-12-31T23") == "2026-01-01T00"


def test_a_range_has_both_its_ends() -> None:
    assert list(hour_range("2025-11-30T23", "2025-12-01T01")) == ["2025-11-30T23", "2025-12-01T00", "2025-12-01T01"]


def test_a_range_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(UsageError, match="ends before it starts"):
        hour_range("2025-11-30T01", "2025-11-30T00")
