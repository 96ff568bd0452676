"""The same queries as materialized views of a Spark Declarative Pipeline: landed and applied as ever, then one run of
spark-pipelines for Silver and Gold together, in a process of its own, as its command works."""

import os
import resource
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.copies import publish_copies
from medallion.declarative.specification import environment, view, write_specification
from medallion.errors import MedallionError
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.pipeline.steps import run_step
from medallion.settings import Settings
from medallion.spark.jars import spark_home
from medallion.spark.java import java_home

LONGEST = 3600  # seconds


def hour_declarative(run: Run, driver: Driver) -> Callable[[], None]:
    """One hour; returns what is left to do when the clock has stopped: copies of the views, for the proof."""
    landed = run_step("land", run, driver)
    run = replace(run, hour=landed.hour)
    run_step("apply", run, driver)
    work = Path(f"{driver.lake.root}-pipeline")
    with driver.recording(run, "refresh") as log, log.timed("refresh", "silver", cpu=_cpu) as event:
        event.details["note"] = "Silver and Gold in one run of spark-pipelines, session included"
        run_pipeline(driver.settings, work)

    return lambda: publish_copies(driver.lake, run.required_hour, "declarative", partial(view, work))


def _cpu() -> float:
    """CPU seconds of the processes that have ended, those of the pipeline among them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_pipeline(settings: Settings, work: Path) -> None:
    """Make all tables of the lake once more, as views in the folder ``work``. Raises MedallionError when that fails."""
    specification = write_specification(str(work), settings)
    command = [f"{sysconfig.get_path('scripts')}/spark-pipelines", "run", "--spec", str(specification)]
    command += ["--remote", settings.spark_master]
    surroundings = os.environ | {
        "MEDALLION_LAKE": settings.lake,
        "PYSPARK_PYTHON": f"{sysconfig.get_path('scripts')}/python",
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": str(java_home()),
        **environment(str(work)),
    }
    # Left to itself it would attach to the session of this driver.
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_CONNECT_MODE_ENABLED"):
        surroundings.pop(name, None)
    log = work / "log"
    with log.open("wb") as out:
        done = subprocess.run(command, env=surroundings, cwd=work, stdout=out, stderr=out, timeout=LONGEST)
    if done.returncode:
        lines = log.read_text(errors="replace").splitlines() or [""]
        why = next((line for line in lines if "Exception" in line), lines[-1])
        raise MedallionError(f"spark-pipelines ended with {done.returncode}: {why[:400]} (all of it is in {log})")
