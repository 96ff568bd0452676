"""A project that declares some of the shop's tables: an hour goes the same way in half the time."""

import shutil
from dataclasses import replace
from pathlib import Path

from medallion.derive.project import graph_of
from medallion.model.definition import definition_keys
from medallion.model.refresh_lock import NAME, lock_text, read_lock
from medallion.model.registry import Registry
from medallion.model.table import Table
from medallion.project import Project, project_at
from tests.shop import PROJECT, graph, registry

SUITE = '''"""Of the shop's promises across tables, those on the tables of this project."""

from expectations._{layer} import SUITE as WHOLE

SUITE = {{table: WHOLE[table] for table in {tables} if table in WHOLE}}
'''


def some_tables(*wanted: str) -> Registry:
    """All of the shop's feeds, these tables, and everything they are made from."""
    every, needed = registry(), {*wanted, *(feed.name for feed in registry().feeds)}
    for table in reversed([*every]):
        if table.name in needed:
            needed |= set(table.inputs)
    return graph({table.name: table for table in every if table.name in needed})


def part_of_shop(root: Path, *wanted: str) -> Project:
    """Make a project in the new folder ``root`` that declares what ``some_tables`` returns.

    Its methods are the shop's, as what is derived of a table follows from the table and its inputs.
    """
    tables = some_tables(*wanted)
    for folder in ("dags", "demo", "plugins"):
        shutil.copytree(PROJECT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "medallion.toml", root)
    promises = root / "expectations"
    promises.mkdir()
    for name in ("__init__", "values"):
        shutil.copy(PROJECT / "expectations" / f"{name}.py", promises)
    for layer in tables.layers:
        names = [table.name for table in tables.layer(layer)]
        shutil.copy(PROJECT / "expectations" / f"{layer}.py", promises / f"_{layer}.py")
        (promises / f"{layer}.py").write_text(SUITE.format(layer=layer, tables=names))
    for layer in tables.declared_layers:
        jobs = root / "spark_jobs" / layer
        jobs.mkdir(parents=True)
        for name in ("__init__", *(table.name.removeprefix(f"{layer}_") for table in tables.layer(layer))):
            shutil.copy(PROJECT / "spark_jobs" / layer / f"{name}.py", jobs)
    shutil.copy(PROJECT / "spark_jobs" / "__init__.py", root / "spark_jobs")
    shutil.copy(PROJECT / "spark_jobs" / "run.py", root / "spark_jobs")
    copy_methods(PROJECT, tables, root)
    return project_at(root)


def copy_methods(project: Path, tables: Registry, to: Path) -> None:
    """Write the lock of ``tables`` to the folder ``to``, with the methods that the lock of ``project`` has for them."""
    keys, known = definition_keys(tables.tables), read_lock(project / NAME).entries
    entries = [
        replace(entry, definition=keys[table.name], policy=table.refresh)
        for table in tables
        if isinstance(table, Table) and (entry := known.get(table.name))
    ]
    (to / NAME).write_text(lock_text(graph_of(tables), entries))
