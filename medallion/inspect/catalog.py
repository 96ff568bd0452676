"""Catalogs: the tables of a release by name, for readers who use other engines."""

import os
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

from medallion.errors import UsageError
from medallion.expect.literals import spark_text
from medallion.hours import hour_or_snapshot
from medallion.inspect.column_descriptions import descriptions_by_table
from medallion.model.registry import Registry
from medallion.ops.releases import Release
from medallion.storage.duckdb_views import Comments, write_views
from medallion.storage.files import in_bucket
from medallion.storage.lake import Lake
from medallion.storage.named_versions import open_named


def write_duckdb_catalog(lake: Lake, release: Release, file: Path, declared: Registry) -> None:
    """Write a DuckDB database with a view per table of ``release``, replacing ``file`` as a whole.

    declared: the declared tables, whose descriptions become comments on views and columns.

    Raises:
        UsageError: The lake is in a bucket, or ``file`` exists and is not a DuckDB database.
    """
    if in_bucket(lake.root):
        raise UsageError(
            f"lake {lake.root} is in a bucket, which a DuckDB file of views cannot read without DuckDB's extension"
            " httpfs: copy the lake, or use medallion query"
        )
    if file.is_dir() or (file.exists() and file.read_bytes()[8:12] != b"DUCK"):
        raise UsageError(f"{file} exists and is no DuckDB database: name another file")
    tables = {
        version.table: open_named(lake, version) for version in filter(None, map(release.version_of, release.versions))
    }
    published = release.published_at.astimezone(UTC).isoformat()
    about = {"release_id": str(release.release_id), "hour": hour_or_snapshot(release.hour), "published_at": published}
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        write_views(draft, lake, tables, about, _comments(declared))
        draft.replace(file)  # readers that have the old file open can still read it
    finally:
        draft.unlink(missing_ok=True)


def _comments(declared: Registry) -> dict[str, Comments]:
    columns = descriptions_by_table(declared)
    return {table.name: Comments(" ".join(table.doc.split()), columns[table.name]) for table in declared}


def spark_statements(lake: Lake, release: Release, declared: Registry, database: str | None = None) -> Iterator[str]:
    """Yield SQL statements that create, in a Spark with Delta, a view per table of ``release`` at its version.

    Args:
        lake: Where the tables are.
        release: Whose versions the views read.
        declared: The declared tables, whose descriptions become comments on the views.
        database: The metastore database for the views; None for temporary views of the session.
    """
    if database is not None:
        yield f"CREATE DATABASE IF NOT EXISTS {_quote(database)}"
    for table, version in release.versions.items():
        view = f"TEMPORARY VIEW {_quote(table)}" if database is None else f"VIEW {_quote(database)}.{_quote(table)}"
        doc = declared.tables[table].doc if table in declared.tables else ""
        comment = f" COMMENT {spark_text(' '.join(doc.split())).format()}" if doc else ""
        delta = f"delta.{_quote(lake.path(table))} VERSION AS OF {version}"
        yield f"CREATE OR REPLACE {view}{comment} AS SELECT * FROM {delta}"  # noqa: S608


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
