"""Proves refresh methods with the Spark of the test process, which starts at the first question."""

from collections.abc import Iterable, Mapping
from functools import partial

from medallion.model import proof
from medallion.model.proven import Proof
from medallion.model.table import Table
from medallion.settings import Settings
from medallion.spark.plans import analyse_here


def prove(tables: Iterable[Table], nodes: Mapping[str, proof.Node]) -> dict[str, Proof]:
    """Prove ``tables`` as ``medallion plan`` does, without what was proven before."""
    return proof.prove(tables, nodes, partial(analyse_here, Settings.from_environment()))
