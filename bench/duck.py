"""The second opinion: the same queries, translated, by DuckDB over the same files. What one machine can do."""

import sqlglot

from medallion.errors import MedallionError
from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Table
from medallion.refresh.commits import commit_metadata
from medallion.refresh.inputs import input_states
from medallion.refresh.refresh_run import RefreshRun, Written
from medallion.storage.delta_writes import properties
from medallion.storage.duckdb_views import TableAt, open_views


def translated(table: Table) -> str:
    """The query of ``table`` in the words of DuckDB, over views called like its inputs."""
    query = table.query.format_map({name: name for name in table.inputs})
    (sql,) = sqlglot.transpile(query, read="spark", write="duckdb")
    return sql


def refresh_duckdb(run: RefreshRun, table: Table) -> Written:
    """Recompute ``table`` with DuckDB and overwrite it through delta-rs; Spark has no part in it."""
    import pyarrow as pa
    from deltalake import write_deltalake

    lake, inputs = run.lake, input_states(run.lake, table)
    delta = lake.open(lake.path(table.name))
    assert delta is not None, f"{table.name} was written when the lake was loaded"
    with open_views({name: TableAt(lake.folder(name), state.version) for name, state in inputs.items()}) as views:
        if views.errors:
            raise MedallionError("; ".join(views.errors.values()))
        rows = views.connection.execute(translated(table)).to_arrow_table()
    metadata = commit_metadata(table, run, inputs, RefreshMethod.FULL_RECOMPUTE, None)
    commit = properties(metadata, upon=delta)
    write_deltalake(delta, rows.cast(pa.schema(delta.schema().to_arrow())), mode="overwrite", commit_properties=commit)
    state = lake.state(table.name)
    assert state is not None, f"{table.name} was just written"
    return Written.whole(state, inputs, strategy="duckdb")
