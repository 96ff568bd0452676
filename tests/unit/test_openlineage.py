"""OpenLineage events reach a real receiver, are as their schemas say, and never cost an hour."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from uuid import UUID

import pytest
from openlineage.client import event_v2

from medallion.inspect.openlineage import PARENT, PAUSE, is_enabled
from tests.unit.lineage_receiver import Received, lineage_service, require_fields
from tests.unit.small_lake import H0, H1, Shop, load


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Undo what the client notes in further variables, and a pause."""
    before = dict(os.environ)
    yield
    PAUSE.ends = 0.0
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    """What a lineage service gets, to which OpenLineage's own variable leads."""
    with lineage_service() as (url, events):
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        yield events


def one_hour(shop: Shop, hour: str = H0) -> None:
    shop.put(hour, {1: "a", 2: "b"})
    assert shop.refresh(hour).status == "succeeded"


def events_of(events: Received, job: str, state: str = "COMPLETE") -> Received:
    return [event for event in events if event["job"]["name"] == job and event["eventType"] == state]


def test_every_event_of_an_hour_is_as_its_schema_says(shop: Shop, received: Received) -> None:
    one_hour(shop)
    assert received
    for event in received:
        require_fields(event, event_v2.RunEvent, event["job"]["name"])
        UUID(event["run"]["runId"])
        assert datetime.fromisoformat(event["eventTime"]).tzinfo
    assert {event["job"]["namespace"] for event in received} == {"shop"}, "the project's name"
    starts = {event["run"]["runId"] for event in received if event["eventType"] == "START"}
    ends = [event["run"]["runId"] for event in received if event["eventType"] != "START"]
    assert sorted(starts) == sorted(ends), "each run starts once and ends once"


def test_refresh_tells_columns_rows_bytes_and_where_columns_come_from(shop: Shop, received: Received) -> None:
    one_hour(shop)
    (event,) = events_of(received, "gold_orders.refresh")
    (made,), (read,) = event["outputs"], event["inputs"]
    assert (made["namespace"], made["name"]) == ("file", shop.lake.path("gold_orders"))
    assert read["name"] == shop.lake.path("silver_orders")
    columns = {field["name"]: field["type"] for field in made["facets"]["schema"]["fields"]}
    assert columns == {"id": "long", "name": "string"}
    assert made["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert "size" in made["outputFacets"]["outputStatistics"]
    (source,) = made["facets"]["columnLineage"]["fields"]["name"]["inputFields"]
    assert (source["name"], source["field"]) == (shop.lake.path("silver_orders"), "name")
    assert event["job"]["facets"]["sql"]["query"] == "SELECT * FROM {silver_orders}"
    assert event["run"]["facets"]["nominalTime"]["nominalStartTime"].startswith(H0)


def test_receiver_is_told_what_columns_mean_whom_to_ask_and_the_tags(
    shop: Shop, tmp_path: Path, received: Received
) -> None:
    feed = replace(shop.tables["bronze_orders"], schema="id BIGINT NOT NULL COMMENT 'Identifies it', name STRING")
    gold = replace(shop.tables["gold_orders"], owner="team:orders", tags=("people",))
    told = replace(shop.tables, tables={**shop.tables.tables, feed.name: feed, gold.name: gold})
    one_hour(load(tmp_path / "told", told))
    *_, event = events_of(received, "gold_orders.refresh")
    facets = event["outputs"][0]["facets"]
    assert {f["name"]: f.get("description") for f in facets["schema"]["fields"]} == {
        "id": "Identifies it",
        "name": None,
    }
    assert [owner["name"] for owner in facets["ownership"]["owners"]] == ["team:orders"]
    assert [tag["key"] for tag in facets["tags"]["tags"]] == ["people"]


def test_bronze_is_read_from_the_change_files(shop: Shop, received: Received) -> None:
    one_hour(shop)
    (event,) = events_of(received, "bronze_orders.apply")
    assert [read["name"] for read in event["inputs"]] == [f"{shop.settings.source}/cdc/orders"]


def test_check_tells_the_result_of_each_expectation(shop: Shop, received: Received) -> None:
    for hour, ids in ((H0, range(1_000)), (H1, range(1_000, 4_000))):  # so many more that it is a warning
        shop.put(hour, dict.fromkeys(ids, "x"))
        shop.refresh(hour)
    *_, event = events_of(received, "gold_orders.check")
    facets = event["inputs"][0]["inputFacets"]
    failed = [one for one in facets["dataQualityAssertions"]["assertions"] if not one["success"]]
    assert [assertion["severity"] for assertion in failed] == ["warn"]
    assert facets["dataQualityMetrics"]["rowCount"] == 4_000


def test_tables_are_children_of_the_task_when_airflow_names_one(
    shop: Shop, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = "01941f29-7c00-7087-8906-40e512c257bd"
    monkeypatch.setenv(PARENT, f"default/hourly_refresh.gold.refresh/{run_id}")
    one_hour(shop)
    parent = events_of(received, "gold_orders.refresh")[0]["run"]["facets"]["parent"]
    assert (parent["job"]["namespace"], parent["job"]["name"]) == ("default", "hourly_refresh.gold.refresh")
    assert parent["run"]["runId"] == run_id


def test_hour_is_published_when_no_receiver_answers(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", '{"type": "http", "url": "http://127.0.0.1:1", "retry": {"total": 0}}')
    one_hour(shop)
    assert shop.published() == {1: "a", 2: "b"}
    one_hour(shop, H1)
    assert caplog.text.count("lineage was not sent") == 1, "it is not tried again and again"


@pytest.mark.slow
def test_receiver_that_does_not_answer_is_tried_once_and_briefly(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts a connection and says nothing
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        one_hour(shop)
        assert time.monotonic() - began < 6
        silent.settimeout(1)
        connections = 0
        with suppress(TimeoutError):
            while silent.accept():
                connections += 1
    assert connections == 1


@pytest.mark.parametrize(
    ("environment", "enabled"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": ""}, False),
        ({"OPENLINEAGE_NAMESPACE": "shop"}, False),
        ({"OPENLINEAGE_URL": "http://x"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({"OPENLINEAGE_CONFIG": "/etc/openlineage.yml"}, True),
        ({"OPENLINEAGE_URL": "http://x", "OPENLINEAGE_DISABLED": "true"}, False),
    ],
)
def test_lineage_is_sent_only_when_openlineage_is_configured(environment: dict[str, str], enabled: bool) -> None:
    assert is_enabled(environment) == enabled
