"""The graph of tables as Airflow shows it: its tables as assets, and its text on the page of the DAG."""

from pathlib import Path

from airflow.sdk import Asset

from medallion.airflow.markdown import escape_markdown
from medallion.airflow.naming import name_in_airflow
from medallion.model.registry import Registry
from medallion.model.table import Table
from medallion.project import Project
from medallion.storage.lake import Lake


def assets(project: Project, tables: Registry, *layers: str) -> list[Asset]:
    """Return the tables of ``layers`` as assets, named after the tables, for other DAGs to schedule on."""
    root = project.settings().lake
    lake = Lake(root if "://" in root else Path(root).absolute().as_uri())
    return [
        Asset(name=name_in_airflow(project, t.name), uri=lake.path(t.name))
        for layer in layers
        for t in tables.layer(layer)
    ]


def lineage(tables: Registry) -> str:
    """Return the graph of tables in Markdown: what each table holds, and what it is made from."""
    lines: list[str] = []
    for layer in tables.layers:
        lines += ["", f"### {layer.capitalize()}", ""]
        for table in tables.layer(layer):
            method = table.refresh_summary if isinstance(table, Table) else table.refresh_method
            lines.append(
                f"- **{table.name}**: {escape_markdown(table.doc.splitlines()[0])}"
                f" *From {', '.join(table.inputs) or 'change files'}; {escape_markdown(method)}.*"
            )
    return "\n".join(lines)
