"""Send the numbers of a run as gauges of Airflow's metrics, to StatsD or OpenTelemetry as Airflow is configured."""

import logging

from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats

from medallion.airflow.naming import REFRESH, name_in_airflow
from medallion.project import find_project

_SWITCHES = ("statsd_on", "statsd_datadog_enabled", "otel_on")
STEPS = ("check", "validate")  # there are new numbers after each of these; a red check ends a run


def send_metrics(run_id: str) -> None:
    """Send the metrics of a run if Airflow sends metrics. Errors are logged and do not fail the run."""
    if not any(conf.getboolean("metrics", switch, fallback=False) for switch in _SWITCHES):
        return
    from medallion.inspect.metrics import run_metrics

    try:
        project = find_project()
        own = "" if name_in_airflow(project, REFRESH) == REFRESH else f"{project.name}."
        for name, value in run_metrics(project.settings(), run_id).items():
            stats.gauge(f"{own}{name}", value)
    except Exception:
        logging.getLogger(__name__).exception("the metrics of run %s were not sent", run_id)
