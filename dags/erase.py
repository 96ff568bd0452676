from medallion.airflow import erase

dag = erase()
