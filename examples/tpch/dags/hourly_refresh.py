from medallion.airflow import hourly_refresh

dag = hourly_refresh()
