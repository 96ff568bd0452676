"""What Airflow loads: tasks, alerts, arrivals, pages, and a local Airflow."""
