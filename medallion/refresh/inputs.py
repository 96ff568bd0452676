"""The inputs of a table: their states, versions and ids, and frames of exactly these versions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.model.proven import Proof
from medallion.model.table import Table
from medallion.spark.delta_reads import read_table
from medallion.storage.change_feed import Changes, changes
from medallion.storage.files import Place
from medallion.storage.foreign_commits import require_ours
from medallion.storage.lake import Lake, TableState, table_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def input_states(lake: Lake, table: Table) -> dict[str, TableState]:
    """Return the current state of each input.

    Raises:
        MedallionError: An input has not been written.
        ChangedByOthers: Another program has changed an input.
    """
    inputs = {}
    for name in table.inputs:
        state = lake.state(name)
        if state is None:
            raise MedallionError(f"{table.name} reads {name}, which has not been written: refresh its layer first")
        inputs[name] = replace(state, commit=require_ours(lake, name, state.version).identity)
    return inputs


def versions_of(inputs: Mapping[str, TableState]) -> dict[str, int]:
    """Return the version of each input."""
    return {name: state.version for name, state in inputs.items()}


def commits_of(inputs: Mapping[str, TableState]) -> dict[str, str]:
    """Return the identity of the commit at each input's version, without inputs whose log entry is gone."""
    return {name: state.commit for name, state in inputs.items() if state.commit}


def changes_since(folder: Place, name: str, state: TableState, origin: Mapping[str, Any]) -> Changes:
    """List what is new in the input ``name`` in ``folder`` since the version that ``origin`` names.

    state: the input as it is now; its log is not read if it is at the same commit. origin: metadata of the commit that
    read the former version.
    """
    known, commit = origin["inputs"][name], origin.get("commits", {}).get(name)
    if known == state.version and commit is not None and commit == state.commit:
        return Changes()
    return changes(folder, known, state.version, commit)


def ids_of(inputs: Mapping[str, TableState]) -> dict[str, str]:
    """Return the Delta ids of the inputs; a rebuilt table has a new id."""
    return {name: table_id(state.delta) for name, state in inputs.items()}


def read_inputs(
    spark: "SparkSession", lake: Lake, inputs: Mapping[str, TableState], proof: Proof | None = None
) -> dict[str, Any]:
    """Return a frame for each input at exactly the version of its state.

    It has the columns that the query was proven for, or all columns if there is no proof.
    """
    return {
        name: read_table(spark, lake.path(name), state, columns=proof.inputs.get(name) if proof else None)
        for name, state in inputs.items()
    }
