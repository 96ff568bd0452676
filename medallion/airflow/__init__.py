"""The DAGs, triggers, plugins and pages of the refresh in Airflow. No other package imports Airflow.

A DAG file has two lines: it imports one of the functions below and calls it; see ``medallion.airflow.dags``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medallion.airflow.dags.daily_maintenance import daily_maintenance
    from medallion.airflow.dags.declarative_refresh import declarative_refresh
    from medallion.airflow.dags.erase import erase
    from medallion.airflow.dags.hourly_refresh import hourly_refresh
    from medallion.airflow.dags.hourly_self_check import hourly_self_check
    from medallion.airflow.dags.refresh_on_arrival import refresh_on_arrival
    from medallion.airflow.dags.replay_quarantine import replay_quarantine

__all__ = [
    "daily_maintenance",
    "declarative_refresh",
    "erase",
    "hourly_refresh",
    "hourly_self_check",
    "refresh_on_arrival",
    "replay_quarantine",
]


def __getattr__(name: str) -> Any:
    """Return a function that builds a DAG, imported on first use: other modules here load without Airflow's parts."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.dags.{name}"), name)
