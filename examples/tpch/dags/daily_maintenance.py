from medallion.airflow import daily_maintenance

dag = daily_maintenance()
