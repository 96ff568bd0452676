"""The command that keeps a Spark warm."""

import click

from medallion.cli.common import settings


@click.command("spark-server")
def spark_server() -> None:
    """Run a warm Spark that steps attach to, until interrupted; restart it when it dies.

    \b
    In this shell and in those where steps run:
      export MEDALLION_SPARK_CONNECT=sc://localhost:15002
      export SPARK_CONNECT_AUTHENTICATE_TOKEN=...            your own secret


    It uses MEDALLION_SPARK_MASTER and MEDALLION_DRIVER_MEMORY, and listens on this machine only.
    """
    from medallion.spark.server import serve

    serve(settings(), report=click.echo)
