"""The same tables by Spark Declarative Pipelines: the specification that spark-pipelines runs, and what it made."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from medallion.errors import UsageError
from medallion.inspect.query import digest, open_release, types_of
from medallion.model.registry import Registry
from medallion.model.table import Table
from medallion.ops.releases import Release
from medallion.settings import PACKAGE, Settings
from medallion.spark.configuration import CODE_CACHE, LOG_SETTINGS, TUNING
from medallion.storage import files
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    import pyarrow as pa

SPECIFICATION = "spark-pipeline.yml"


def write_specification(folder: str, settings: Settings) -> Path:
    """Empty ``folder`` and put a pipeline of our tables there, which reads the lake in MEDALLION_LAKE.

    Raises UsageError where that is no folder: a pipeline writes Parquet to a warehouse on this machine.
    """
    if files.in_bucket(folder):
        raise UsageError("a declarative pipeline writes to a folder: it needs a lake in one")
    work = Path(folder)
    shutil.rmtree(work, ignore_errors=True)
    (work / "conf").mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("pipeline.py"), work / "pipeline.py")
    specification = work / SPECIFICATION
    specification.write_text(
        f"name: medallion\nstorage: {(work / 'storage').as_uri()}\ndatabase: default\n"
        "libraries:\n  - glob:\n      include: pipeline.py\n"
    )
    conf = {
        **TUNING,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {CODE_CACHE} -Dmedallion.log={settings.spark_log}",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(work / "spark-warehouse"),
        "spark.ui.enabled": "false",
    }
    (work / "conf" / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in conf.items()))
    shutil.copy(LOG_SETTINGS, work / "conf" / "log4j2.properties")
    return specification


def environment(folder: str) -> dict[str, str]:
    """What spark-pipelines needs to know of a folder with a pipeline: its session is made by a process that takes no
    options from the command, only the files of a configuration."""
    return {"SPARK_CONF_DIR": f"{folder}/conf", "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(PACKAGE.parent)}


def view(work: Path, name: str) -> "pa.Table":
    """The rows of a view that a run in ``work`` has made."""
    import pyarrow.parquet as pq

    return pq.read_table(work / "spark-warehouse" / name, partitioning=None)


def differing_views(lake: Lake, release: Release, tables: Registry, work: Path) -> list[str]:
    """The views of a run in ``work`` whose rows are not those of ``release``, each in any order."""
    wrong = []
    with open_release(lake, release) as connection:
        for table in tables:
            if isinstance(table, Table):
                connection.register("made", view(work, table.name))
                types = types_of(connection, table.name)
                if digest(connection, table.name, types) != digest(connection, "made", types):
                    wrong.append(table.name)
                connection.unregister("made")
    return wrong
