"""Erase persons from the lake: their rows, all history that has them, and what would bring them back.

A file or a Variable names the persons, one on each line, so that neither this run's configuration, nor its note, nor a
log names anybody. Hours wait until the erasure has ended. Without a file and a Variable, the run finishes an erasure
that was interrupted.
"""

from airflow.sdk import DAG, Param

from medallion.airflow.erase_task import erase_persons
from medallion.airflow.naming import POOL, project_of_caller
from medallion.airflow.tasks import dag_of
from medallion.model.table import STRATEGIES
from medallion.project import Project


def erase(project: Project | None = None, *, pool: str = POOL) -> DAG:
    """Return the DAG of ``project``, by default the project of the calling DAG file."""
    project = project or project_of_caller()
    params = {
        "subjects_file": Param(
            None,
            type=["null", "string"],
            title="Subjects file",
            description=(
                "A file that the worker can read, with one subject on each line. Never a subject itself. Empty: the"
                " Variable names the persons; with both empty, an interrupted erasure is finished."
            ),
        ),
        "subjects_variable": Param(
            None,
            type=["null", "string"],
            title="Subjects variable",
            description=(
                "The name of a Variable, or of a secret of the secrets backend, with one subject on each line. Never a"
                " subject itself. Empty: the file names the persons."
            ),
        ),
        "strategy": Param(
            "incremental",
            enum=[*STRATEGIES],
            title="Strategy",
            description="How the tables above Bronze follow.",
        ),
        "force": Param(
            False,
            type=["null", "boolean"],
            title="Force",
            description="Drop releases with their rows even if they are held by name.",
        ),
        "dry_run": Param(
            False, type=["null", "boolean"], title="Dry run", description="Say what would go, and change nothing."
        ),
    }
    with dag_of(project, "erase", pool=pool, doc_md=__doc__, schedule=None, params=params) as dag:
        erase_persons(str(project.root))
    return dag
