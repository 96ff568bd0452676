from medallion.airflow import refresh_on_arrival

dag = refresh_on_arrival()
