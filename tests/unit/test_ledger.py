"""Hours apply in order, once: which hour's turn it is."""

from datetime import UTC, datetime, timedelta

import pytest

from medallion.errors import HourNotAvailable, MedallionError
from medallion.ingest.ledger import choose_hour, pending_hours

LISTED = ["2025-11-30T00", "2025-11-30T01", "2025-11-30T03", "2025-11-30T04"]


def test_the_next_in_line_is_the_earliest_hour_that_bronze_does_not_have() -> None:
    assert choose_hour(None, None, LISTED) == "2025-11-30T00"
    assert choose_hour(None, "2025-11-30T00", LISTED) == "2025-11-30T01"


def test_an_hour_that_the_source_never_lists_leaves_no_gap() -> None:
    assert choose_hour("2025-11-30T03", "2025-11-30T01", LISTED) == "2025-11-30T03"


def test_a_gap_is_an_error_that_names_the_hours_and_the_command() -> None:
    with pytest.raises(MedallionError, match="earlier hours are missing: 2025-11-30T01, 2025-11-30T03") as error:
        choose_hour("2025-11-30T04", "2025-11-30T00", LISTED)
    assert "medallion refresh --from-hour 2025-11-30T01 --to-hour 2025-11-30T03 first" in str(error.value)


def test_an_applied_hour_is_itself_again() -> None:
    assert choose_hour("2025-11-30T00", "2025-11-30T01", LISTED, landed=LISTED) == "2025-11-30T00"


def test_an_hour_that_arrives_after_a_later_one_is_never_dropped_in_silence() -> None:
    with pytest.raises(MedallionError, match="2025-11-30T00 arrived after 2025-11-30T01"):
        choose_hour("2025-11-30T00", "2025-11-30T01", LISTED)


def test_an_hour_without_files_is_not_available() -> None:
    with pytest.raises(HourNotAvailable, match="it lists 2025-11-30T00 to 2025-11-30T04"):
        choose_hour("2025-12-01T00", None, LISTED)


def test_an_hour_that_has_not_ended_is_refused_though_the_source_lists_it() -> None:
    running = datetime(2025, 11, 30, 1, 59, 59, tzinfo=UTC)
    with pytest.raises(HourNotAvailable, match="has not ended yet: refresh it after 2025-11-30 02:00 UTC"):
        choose_hour("2025-11-30T01", "2025-11-30T00", LISTED, now=running)
    with pytest.raises(HourNotAvailable, match="no hour after 2025-11-30T00"):
        choose_hour(None, "2025-11-30T00", LISTED, now=running)
    assert choose_hour(None, "2025-11-30T00", LISTED, now=running + timedelta(seconds=1)) == "2025-11-30T01"


def test_an_exhausted_source_says_so() -> None:
    with pytest.raises(HourNotAvailable, match="no hour after 2025-11-30T04"):
        choose_hour(None, "2025-11-30T04", LISTED)
    with pytest.raises(HourNotAvailable, match="no hour after the snapshot: nothing to do until one arrives"):
        choose_hour(None, None, [])


def test_pending_hours_are_all_hours_after_the_applied_one_up_to_a_given_hour() -> None:
    assert pending_hours("2025-11-30T00", LISTED) == LISTED[1:]
    assert pending_hours("2025-11-30T00", LISTED, until="2025-11-30T03") == ["2025-11-30T01", "2025-11-30T03"]
    assert pending_hours("2025-11-30T04", LISTED) == []


def test_pending_hours_include_landed_hours_that_the_source_no_longer_lists() -> None:
    assert pending_hours("2025-11-30T01", LISTED, landed=["2025-11-30T00", "2025-11-30T02"])[0] == "2025-11-30T02"


def test_pending_hours_begin_with_the_first_hour_when_bronze_holds_the_snapshot_alone() -> None:
    assert pending_hours(None, LISTED, until="2025-11-30T00") == ["2025-11-30T00"]
