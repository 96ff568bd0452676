"""The tables over literal rows: a test states the columns that matter."""

from datetime import date, datetime
from decimal import Decimal

from medallion.testing import Run


def test_a_trip_of_an_unknown_station_is_kept_without_a_district(run: Run) -> None:
    run(
        "silver_trips",
        bronze_trips=[{"trip_id": 1, "station_id": 7, "minutes": 5}, {"trip_id": 2, "station_id": 8, "minutes": 5}],
        bronze_stations=[{"station_id": 7, "district": "harbour"}],
    ).gives("trip_id, district", (1, "harbour"), (2, None))


def test_a_day_has_its_trips_and_what_they_brought(run: Run) -> None:
    def trip(hour: int, fare: str) -> dict[str, object]:
        return {"started_at": datetime(2025, 11, 3, hour), "district": "harbour", "minutes": 10, "fare": Decimal(fare)}

    run("gold_daily_trips", silver_trips=[trip(8, "2.50"), trip(23, "1.00")]).gives(
        "day, district, trips, minutes, revenue", (date(2025, 11, 3), "harbour", 2, 20, Decimal("3.50"))
    )
