"""medallion plan: how each table of the project is refreshed, as Spark reads its query."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medallion.cli.common import settings
from medallion.errors import MedallionError

if TYPE_CHECKING:
    from medallion.model.proven import Proof


@click.command()
@click.option("--write", "is_written", is_flag=True, help="Write refresh.lock: what is proven of each table.")
@click.option("--check", "is_checked", is_flag=True, help="Fail where refresh.lock is not what is proven.")
@click.option("--all", "anew", is_flag=True, help="Analyse every query again, also those that have not changed.")
def plan(is_written: bool, is_checked: bool, anew: bool) -> None:
    """Show how each table is refreshed, and what of its inputs a change restricts.

    Spark analyses the queries that have changed since refresh.lock was written, and nothing is run. A refresh method
    that could give other rows than its query is refused, with the construct that is in the way.
    """
    from medallion.model.proof import prove
    from medallion.model.refresh_lock import NAME, lock_text
    from medallion.model.table import Table
    from medallion.project import find_project
    from medallion.spark.plans import analyse_here
    from medallion.storage.files import write_text

    project = find_project()
    every, path = project.registry(extras=True), project.root / NAME
    for layer in project.layers:  # a promise on a table that is not there is said here as well
        project.suite(layer)
    tables = [table for table in every if isinstance(table, Table)]
    analyse = partial(analyse_here, settings().replace(spark_connect=None))  # a Spark Connect server shows no plans
    proofs = prove(tables, every.tables, analyse, _known(path, anew, is_written))
    text = lock_text(proofs.values())
    former = path.read_text() if path.exists() else ""
    if is_written:
        write_text(path, text)
    elif is_checked and text != former:
        known = set(former.splitlines())
        changed = [name for name, proof in proofs.items() if lock_text([proof]).rstrip("\n") not in known]
        named = ", ".join(changed) or "tables that are gone"
        raise MedallionError(f"{path.name} is not up to date ({named}): run medallion plan --write, and commit it")
    if is_written or is_checked:
        click.echo(f"{path.name}: the refresh methods of {len(tables)} tables are proven")
        return
    for name, proof in proofs.items():
        by = ", ".join(f"{source}.{column}" for source, column in proof.restricted.items())
        click.echo(f"{name}  {proof.method}{f'; a change reads only the rows matched by {by}' if by else ''}")


def _known(path: Path, anew: bool, is_written: bool) -> "Mapping[str, Proof]":
    """What was proven before; nothing where it is proven anew, or where a lock that cannot be read is written again."""
    from medallion.model.refresh_lock import read_lock

    try:
        return {} if anew else read_lock(path)
    except MedallionError:
        if not is_written:
            raise
        return {}
