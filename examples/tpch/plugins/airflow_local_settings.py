import medallion.airflow.sqlite  # noqa: F401 (it registers what SQLite needs)

__all__: list[str] = []  # Airflow takes every name from here
