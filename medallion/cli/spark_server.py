"""The command that keeps a Spark warm."""

import click

from medallion.cli.common import settings


@click.command("spark-server")
def spark_server() -> None:
    """Keep a Spark warm for steps to attach to, until interrupted; started again when it dies.

    \b
    In this shell and in those where steps run:
      export MEDALLION_SPARK_CONNECT=sc://localhost:15002
      export SPARK_CONNECT_AUTHENTICATE_TOKEN=...            a secret of your own


    It takes MEDALLION_SPARK_MASTER and MEDALLION_DRIVER_MEMORY, and listens on this machine alone.
    """
    from medallion.spark.server import serve

    serve(settings(), report=click.echo)
