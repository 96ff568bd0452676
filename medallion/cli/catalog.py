"""Commands that put the tables of a release into a catalog, for readers with engines of their own."""

from pathlib import Path

import click

from medallion.cli.common import OF_RELEASE, Group, current_lake, current_tables
from medallion.ops import releases


@click.group(cls=Group)
def catalog() -> None:
    """Let readers find the tables of a release by name, in DuckDB and in Spark."""


@catalog.command("duckdb")
@click.argument("file", type=click.Path(path_type=Path))
@OF_RELEASE
def catalog_duckdb(file: Path, number: int | None) -> None:
    """Write FILE, a DuckDB database with a view per table, as of one release.

    Run it again after each release. A session that has FILE open reads the former release until it reopens FILE.

    \b
      medallion catalog duckdb shop.duckdb
      duckdb -readonly shop.duckdb "SELECT * FROM gold_order_status_summary"
    """
    from medallion.inspect.catalog import write_duckdb_catalog

    lake = current_lake()
    release = releases.require_release(lake, number)
    write_duckdb_catalog(lake, release, file, current_tables())
    click.echo(f"{file}: {len(release.versions)} tables of release {release.release_id}")


@catalog.command("spark")
@click.option("--database", help="Keep the views in this database of the metastore.  [default: of the session alone]")
@OF_RELEASE
def catalog_spark(database: str | None, number: int | None) -> None:
    """Print SQL that creates a view per table in a Spark with Delta, as of one release.

    With a metastore and --database, all users of the metastore see the views.

    \b
      medallion catalog spark > views.sql && spark-sql -i views.sql
      medallion catalog spark --database shop | spark-sql -f /dev/stdin
    """
    from medallion.inspect.catalog import spark_statements

    lake = current_lake()
    for statement in spark_statements(lake, releases.require_release(lake, number), current_tables(), database):
        click.echo(f"{statement};")
