from medallion.airflow import hourly_self_check

dag = hourly_self_check()
