from medallion.airflow.plugins import MedallionPages as MedallionPages
from medallion.airflow.plugins import MedallionRuns as MedallionRuns
