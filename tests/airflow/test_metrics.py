"""The numbers of a run reach StatsD and OpenTelemetry receivers by Airflow's own client, under documented names."""

import atexit
import json
import re
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from airflow.sdk._shared.observability.metrics.otel_logger import flush_otel_metrics
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from opentelemetry import metrics as opentelemetry
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider

from medallion.airflow.metrics import send_metrics
from medallion.inspect.metrics import METRICS, run_metrics
from medallion.ops.event_log import append
from medallion.ops.events import Event
from tests.unit.small_lake import H0, H1, Shop, load, without_spark

GUIDE = Path("docs/how-to/watch-metrics.md")
DASHBOARD = Path("docs/how-to/grafana-dashboard.json")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop whose environment leads to it, with one hour published and one more at the source."""
    without_spark(monkeypatch)
    made = load(tmp_path)
    monkeypatch.setenv("MEDALLION_LAKE", made.settings.lake)
    monkeypatch.setenv("MEDALLION_SOURCE", made.settings.source)
    monkeypatch.setattr("medallion.ingest.arrivals.tables_of", lambda *_: made.tables)
    made.put(H0, {1: "a", 2: "b"})
    made.refresh()
    made.put(H1, {3: "c"})
    return made


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A receiver that Airflow's metrics are configured for, as a task's process configures them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        for name, value in {"ON": "True", "HOST": "127.0.0.1", "PORT": str(receiver.getsockname()[1])}.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{name}", value)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        yield receiver
    monkeypatch.undo()
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, float]]:
    """The gauges that a collector has got, by name, and Airflow's metrics configured for it."""
    gauges: dict[str, float] = {}

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    for point in metric.gauge.data_points:
                        gauges[metric.name] = point.as_double or point.as_int
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        yield gauges
        atexit.unregister(flush_otel_metrics)
        provider = opentelemetry.get_meter_provider()
        assert isinstance(provider, MeterProvider)
        provider.shutdown()
        server.shutdown()
    monkeypatch.undo()
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


def test_metrics_of_a_run_reach_an_opentelemetry_collector(shop: Shop, collector: dict[str, float]) -> None:
    send_metrics("refresh")
    flush_otel_metrics()  # type: ignore[no-untyped-call]  # as the end of a task's process does
    expected = run_metrics(shop.settings, "refresh")
    assert {f"airflow.{name}" for name in expected} <= collector.keys()
    assert collector["airflow.medallion.rows_in"] == 2
    assert collector["airflow.medallion.lag_hours"] == 1
    assert collector["airflow.medallion.expectations.failed"] == 0
    assert collector["airflow.medallion.freshness_seconds"] > 3600


def test_metrics_of_a_run_reach_statsd(shop: Shop, statsd: socket.socket) -> None:
    send_metrics("refresh")
    received = {}
    for _ in run_metrics(shop.settings, "refresh"):
        name, value = statsd.recv(1000).decode().split(":")
        number, kind = value.split("|")[:2]
        assert kind == "g"
        received[name.removeprefix("airflow.")] = float(number)
    assert received["medallion.rows_in"] == 2
    assert received["medallion.rows_out.gold"] == 2
    assert received["medallion.lag_hours"] == 1
    assert received["medallion.expectations.failed"] == 0
    assert received["medallion.freshness_seconds"] > 3600
    parts = [value for name, value in received.items() if name.startswith("medallion.seconds.") and "total" not in name]
    assert received["medallion.seconds.total"] == pytest.approx(sum(parts), abs=0.1)


def test_failed_expectations_are_counted_by_severity(shop: Shop) -> None:
    results = {name: {"status": status} for name, status in (("a", "failed"), ("b", "warned"), ("c", "succeeded"))}
    event = Event("red", H1, "check", "full", 1, "gold", "gold_orders", details={"expectations": results})
    append(shop.lake, [event])
    metrics = run_metrics(shop.settings, "red")
    assert (metrics["medallion.expectations.failed"], metrics["medallion.expectations.warned"]) == (1, 1)


def test_figures_of_the_jvm_are_shares_of_their_limits_after_the_fullest_step(shop: Shop) -> None:
    for code, layer in ((100, "silver"), (384, "gold")):
        figures = {"code_cache": {"used": code, "limit": 512}, "metaspace": {"used": 9, "limit": None}}
        append(shop.lake, [Event("warm", H1, "refresh", "full", 1, layer, details={"jvm": figures})])
    metrics = run_metrics(shop.settings, "warm")
    assert metrics["medallion.jvm.code_cache"] == 0.75
    assert "medallion.jvm.metaspace" not in metrics, "it has no limit"


def test_metrics_that_cannot_be_read_cost_no_run(
    shop: Shop, statsd: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MEDALLION_LAKE", "s3://wrong")
    send_metrics("refresh")
    assert "were not sent" in caplog.text


def test_every_metric_is_documented_and_on_the_dashboard(shop: Shop) -> None:
    patterns = [
        re.sub(r"\{\w+\}", r"\\w+", re.escape(name).replace(r"\{", "{").replace(r"\}", "}")) for name in METRICS
    ]
    for name in run_metrics(shop.settings, "refresh"):
        assert any(re.fullmatch(pattern, name) for pattern in patterns), name
    for name, meaning in METRICS.items():
        assert f"| `{name}` | {meaning} |" in GUIDE.read_text()
        assert name.split("{")[0] in DASHBOARD.read_text(), name
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert all(panel["title"] and panel["targets"] for panel in panels)
