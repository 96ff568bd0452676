from medallion.airflow import declarative_refresh

dag = declarative_refresh()
