"""Hours that the schedule leaves to a person: warned of once, and shown until they are applied."""

import pytest

from medallion.ingest.never_applied import describe, forget_withdrawn, read_never_applied, warn_of_never_applied
from medallion.ingest.restatement import restatement_file
from medallion.inspect.hour_history import hour_history
from medallion.inspect.status import lake_status
from medallion.storage.files import write_json
from medallion.ui.plots import hour_places
from tests.unit.small_lake import H0, H1, H2, H3, Shop


def test_hours_left_to_a_person_are_warned_of_once_and_shown_until_they_are_applied(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medallion.inspect.status.tables_of", lambda *_: shop.tables)
    for hour in (H0, H1, H2):
        shop.put(hour, {1: hour})
    shop.refresh(H0)
    assert [warn_of_never_applied(shop.lake, run, (H1, H2)) for run in ("first", "second")] == [True, False]
    why = "pending, and too old for the schedule to catch up on"
    said = f"2 hours ({H1} to {H2}) are {why}: run medallion refresh --to-hour {H2}"
    assert any(problem.startswith(said) for problem in lake_status(shop.settings).problems)
    assert [(mark.hour, mark.status) for mark in hour_history(shop.lake, [H1, H2])][1:] == [
        (H1, "pending"),
        (H2, "pending"),
    ]
    shop.refresh(H1)
    assert describe(read_never_applied(shop.lake, H1)).startswith(f"hour {H2} is {why}")
    assert not warn_of_never_applied(shop.lake, "third", (H2,)), "it was among those of the warning"
    restated = {"hour": H0, "until": H1, "hours": [H0, H1], "rewound": True}
    write_json(restatement_file(shop.lake), restated | {"until": H2, "hours": [H0, H1, H2]})
    assert lake_status(shop.settings).left is None, "an hour that is being restated waits for nobody"
    write_json(restatement_file(shop.lake), restated)
    assert (lake_status(shop.settings).left or "").startswith(f"hour {H2} is {why}")
    restatement_file(shop.lake).unlink()
    shop.refresh(H2)
    assert lake_status(shop.settings).left is None
    assert warn_of_never_applied(shop.lake, "later", (H3,)), "other hours are another warning"
    forget_withdrawn(shop.lake, "run", H2, (H3,), H3)
    forget_withdrawn(shop.lake, "an earlier hour, run again", H2, (), H2)
    assert read_never_applied(shop.lake, H2) == [H3]
    forget_withdrawn(shop.lake, "run", H2, (), H3)
    assert lake_status(shop.settings).left is None, "the source does not list it any more"
    assert warn_of_never_applied(shop.lake, "again", (H3,)), "it has come back"
    assert read_never_applied(shop.lake, H2) == [H3]


def test_missing_hours_leave_a_gap_on_the_axis_of_a_plot() -> None:
    assert hour_places([H0, H1, H3]) == [0, 1, 3]
    assert hour_places([H0, H0, H2]) == [0, 1, 3], "an hour that was refreshed twice has two places"
    assert hour_places([H1, H0]) == [0, 1], "one that was restated comes after"
    assert hour_places(["2025-11-30T00", "2026-11-30T00"]) == [0, 25], "a year does not squeeze all others"
    assert hour_places([]) == []
