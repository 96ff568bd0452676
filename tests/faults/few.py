"""The medallion command over some of the tables: ``main`` reads their names up to ``--``, then the command.

FAULTS_SOURCE is KAFKA where feeds are delivered as tests.faults.kafka does it. FAULTS_MACHINE is a folder where the
process keeps its lock, as if on a machine that shares the lake and nothing else.
"""

import os
import sys
from pathlib import Path
from unittest.mock import patch

SHORT_LEASE = (8.0, 3.0)  # seconds, and of them in reserve


def main() -> None:
    """Run it."""
    from medallion.cli import main
    from tests.faults.kafka import KAFKA, from_kafka
    from tests.shop import graph, registry

    if folder := os.environ.get("FAULTS_MACHINE"):
        as_another_machine(Path(folder))
    split = sys.argv.index("--")
    names = set(sys.argv[1:split])
    every = from_kafka(registry()) if os.environ.get("FAULTS_SOURCE") == KAFKA else registry()
    some = graph({table.name: table for table in every if table.name in names})
    sys.argv[1:] = sys.argv[split + 1 :]
    with patch("medallion.pipeline.driver.tables_in", lambda *_: some):
        main.main()


def as_another_machine(folder: Path) -> None:
    """Keep locks in ``folder`` from now on, and leases for a few seconds."""
    from medallion.ops import lease, writer_lock

    lease.TTL_SECONDS, lease.SAFETY_SECONDS = SHORT_LEASE
    folder.mkdir(parents=True, exist_ok=True)
    writer_lock.machine_id = lambda: folder.name  # type: ignore[assignment]
    writer_lock.lock_file = lambda _: folder / "writer.lock"  # type: ignore[assignment]
