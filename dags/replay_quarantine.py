"""Change lines in quarantine replayed in their old place, corrected or because the schema was: restates their hour.

The page *Quarantine* starts it. The hour and every later one are applied again, and published once every check has
passed.
"""

from airflow.sdk import DAG, Param

from medallion.airflow.tasks import EVERY_DAG, replay_lines

with DAG(
    "replay_quarantine",
    doc_md=__doc__,
    schedule=None,
    is_paused_upon_creation=False,
    **EVERY_DAG,
    params={
        "feed": Param("orders", type="string", title="Feed", description="Such as orders: medallion quarantine list."),
        "hour": Param(
            "2025-11-30T00",
            type="string",
            title="Hour",
            description="The hour that the lines are of, in UTC, as YYYY-MM-DDTHH.",
        ),
        "lines": Param(
            "",
            type="string",
            title="Lines",
            description=(
                "Corrected lines as JSON, a list of line_number and raw, as medallion quarantine show --format json"
                " prints them. Empty where the schema was corrected, and the lines fit as they came."
            ),
        ),
    },
) as dag:
    replay_lines()
