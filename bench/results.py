"""The results of a comparison as files: its plan, machine and rounds as JSON, its measures as Parquet."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.plan import Measure
from medallion.storage.files import read_json, whole, write_text

CONDITIONS, MEASURES = "measures.json", "measures.parquet"


def write_results(out: Path, result: Mapping[str, Any]) -> None:
    """Write ``result`` to ``out``, the measures with a row for each hour, strategy and phase."""
    rows = result["measures"]
    table = pa.table({field.name: [row.get(field.name) for row in rows] for field in fields(Measure)})
    out.mkdir(parents=True, exist_ok=True)
    with whole(out / MEASURES) as partial:
        pq.write_table(table, partial, compression="zstd")
    conditions = {name: value for name, value in result.items() if name != "measures"}
    write_text(out / CONDITIONS, _as_json(conditions))


def read_results(out: Path) -> dict[str, Any] | None:
    """Read what write_results wrote; None where there is nothing."""
    conditions = read_json(out / CONDITIONS)
    return conditions and conditions | {"measures": pq.read_table(out / MEASURES).to_pylist()}


def _as_json(result: Mapping[str, Any]) -> str:
    """Return JSON with one line for each round."""

    def encode(value: Any) -> str:
        if not isinstance(value, list):
            return json.dumps(value)
        return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"

    return "{\n " + ",\n ".join(f"{json.dumps(name)}: {encode(value)}" for name, value in result.items()) + "\n}\n"
