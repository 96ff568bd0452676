"""Promises between tables of Gold and those below."""

from medallion import Sums, adds_up

SUITE = {
    "gold_daily_trips": (
        adds_up(
            "trips and revenue add up to silver_trips",
            Sums("silver_trips", (("trips", "trips", "1"), ("revenue", "revenue", "fare"))),
        ),
    ),
}
