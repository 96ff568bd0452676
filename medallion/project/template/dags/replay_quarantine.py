from medallion.airflow import replay_quarantine

dag = replay_quarantine()
