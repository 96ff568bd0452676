"""refresh.lock: what is proven of each table of the project, so that a refresh need not ask Spark.

One line per table, in the root of the project. A line counts as long as its fingerprint does: a table whose query,
method or input columns have changed is proven again where it is refreshed.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from medallion.errors import MedallionError
from medallion.model.proven import Proof

NAME = "refresh.lock"


def read_lock(path: Path) -> dict[str, Proof]:
    """Read what the lock at ``path`` proves, by fingerprint; nothing where there is no lock.

    Raises:
        MedallionError: A line cannot be read.
    """
    proofs = {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], start=1):
        try:
            proof = _proof_of(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            raise MedallionError(
                f"{path}, line {number}, cannot be read ({error}): write it again with medallion plan --write"
            ) from None
        proofs[proof.fingerprint] = proof
    return proofs


def lock_text(proofs: Iterable[Proof]) -> str:
    """Return the text of a lock with ``proofs``."""
    lines = (json.dumps(asdict(proof), sort_keys=True) for proof in sorted(proofs, key=lambda proof: proof.table))
    return "".join(f"{line}\n" for line in lines)


def _proof_of(record: Mapping[str, Any]) -> Proof:
    columns = {name: _columns(found) for name, found in record["inputs"].items()}
    return Proof(**{**record, "columns": _columns(record["columns"]), "inputs": columns})


def _columns(found: Iterable[Iterable[Any]]) -> tuple[tuple[str, str, bool], ...]:
    return tuple((str(name), str(kind), bool(nullable)) for name, kind, nullable in found)
