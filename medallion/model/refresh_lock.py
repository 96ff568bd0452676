"""refresh.lock: the refresh method of each table of the project, as derived from its query, and the proof of it.

The file is in the root of the project. Its first line identifies what the methods were derived from; then follows one
line per table. A line is valid as long as the definition of the table matches it, so that loading a project needs no
SQL parsing. For a table that has changed, the method is derived when the table is refreshed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from medallion.errors import MedallionError
from medallion.model.definition import definition_keys
from medallion.model.methods import Additive, ByKey, Full, Kept, KeptItem, KeptPart, Method, Recent, Via
from medallion.model.needs import Link, Needs, Read
from medallion.model.proven import Proof
from medallion.model.refresh_method import RefreshMethod
from medallion.model.registry import Registry

NAME = "refresh.lock"


@dataclass(frozen=True)
class Entry:
    """How one table is refreshed: a line of the lock.

    definition: the key of the table's definition, for which the line is valid. policy: the declared refresh policy.
    method, reason: the chosen method, and why. refused: by other method, why it was not chosen. proof: the proof of the
    method.
    """

    table: str
    definition: str
    policy: str
    method: Method
    reason: str
    refused: Mapping[str, str]
    proof: Proof


@dataclass(frozen=True)
class Lock:
    """The contents of a lock. entries: its lines, by table."""

    entries: Mapping[str, Entry] = field(default_factory=dict)

    @property
    def proofs(self) -> dict[str, Proof]:
        """The proofs, by fingerprint."""
        return {entry.proof.fingerprint: entry.proof for entry in self.entries.values()}

    def entry_of(self, tables: Registry, name: str) -> Entry | None:
        """Return the line of a table; None if it has none for its current definition."""
        entry = self.entries.get(name)
        return entry if entry and entry.definition == definition_keys(tables.tables)[name] else None


def read_lock(path: Path) -> Lock:
    """Read the lock at ``path``; a missing file is an empty lock.

    Raises:
        MedallionError: The file is not exactly as ``lock_text`` wrote it, so its proofs cannot be trusted.
    """
    first, *lines = lock_lines(path)
    if first and not _is_sealed(first, lines):
        raise MedallionError(
            f"{path} is not as this version of medallion writes it, or was edited or merged since: write it again with"
            " medallion plan --write"
        )
    entries = {}
    for number, line in enumerate(lines, start=2):
        try:
            entry = _entry_of(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise MedallionError(
                f"{path}, line {number}, cannot be read ({error}): write it again with medallion plan --write"
            ) from None
        entries[entry.table] = entry
    return Lock(entries)


def lock_lines(path: Path) -> list[str]:
    """Return the lines of the lock at ``path``, or one empty line if there is no file. Raises MedallionError."""
    try:
        return path.read_text(encoding="utf-8").splitlines() or [""]
    except FileNotFoundError:
        return [""]
    except (OSError, ValueError) as error:
        raise MedallionError(f"{path} cannot be read ({error}): write it again with medallion plan --write") from None


def readable_entries(text: str) -> dict[str, Entry]:
    """Return, by table, the lines of a lock's text that can be parsed."""
    entries = {}
    for line in text.splitlines()[1:]:
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            entry = _entry_of(json.loads(line))
            entries[entry.table] = entry
    return entries


def lock_text(graph: str, entries: Iterable[Entry]) -> str:
    """Return the text of a lock. graph: the result of ``graph_key``."""
    lines = [_line_of(entry) for entry in sorted(entries, key=lambda entry: entry.table)]
    return "".join(f"{line}\n" for line in (json.dumps({"graph": _seal(graph, lines)}), *lines))


def is_derived_from(graph: str, path: Path) -> bool:
    """Return whether the lock at ``path`` was derived from ``graph`` and not edited since."""
    first, *lines = lock_lines(path)
    return first == json.dumps({"graph": _seal(graph, lines)})


def graph_key(tables: Registry, versions: Sequence[str]) -> str:
    """Return a key of what methods are derived from: all definitions, and the ``versions`` of what derives them."""
    identity = [*versions, definition_keys(tables.tables)]
    return sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def with_methods(tables: Registry, path: Path) -> Registry:
    """Return ``tables`` with the methods that the lock at ``path`` has for their current definitions."""
    try:
        lock = read_lock(path)
    except MedallionError:  # the refresh reports it
        return tables
    keys = definition_keys(tables.tables)
    return tables.with_methods(
        {name: entry.method for name, entry in lock.entries.items() if entry.definition == keys.get(name)}
    )


def _seal(graph: str, lines: Sequence[str]) -> str:
    return f"{graph} {sha256(chr(10).join(lines).encode()).hexdigest()[:16]}"


def _is_sealed(first: str, lines: Sequence[str]) -> bool:
    try:
        graph, _ = str(json.loads(first)["graph"]).split()
    except (ValueError, TypeError, KeyError):
        return False
    return first == json.dumps({"graph": _seal(graph, lines)})


def _line_of(entry: Entry) -> str:
    record = asdict(replace(entry, method=Full()))
    return json.dumps({**record, "method": describe_method(entry.method)})


def method_kind(method: Method | None) -> RefreshMethod:
    """Return the kind of a refresh method; None, a table without one, is a full recompute."""
    return RefreshMethod(describe_method(method or Full())["kind"])


def describe_method(method: Method) -> dict[str, Any]:
    """Return a method in its JSON form."""
    match method:
        case ByKey(key, via, columns):
            paths = {name: [_way(step) for step in steps.ways] for name, steps in via.items()}
            return {"kind": RefreshMethod.UPSERT, "key": key, "columns": dict(columns), "paths": paths}
        case Additive(parts):
            return {"kind": RefreshMethod.INCREMENTAL_AGGREGATE, "parts": [*parts]}
        case Kept(kept, rest):
            relations = [
                {**asdict(replace(part, by=None)), "by": describe_method(part.by) if part.by else None} for part in kept
            ]
            return {"kind": RefreshMethod.INCREMENTAL_AGGREGATE, "kept": relations, "rest": rest}
        case Recent(name, column, span):
            seconds = span.total_seconds()
            return {"kind": RefreshMethod.LATEST_ROWS, "input": name, "column": column, "seconds": seconds}
    return {"kind": RefreshMethod.FULL_RECOMPUTE, "reason": method.reason}


def _method_of(record: Mapping[str, Any]) -> Method:
    match record["kind"]:
        case RefreshMethod.UPSERT:
            return _upsert_of(record)
        case RefreshMethod.INCREMENTAL_AGGREGATE if "kept" in record:
            return Kept(tuple(map(_kept_of, record["kept"])), record["rest"])
        case RefreshMethod.INCREMENTAL_AGGREGATE:
            return Additive(tuple(record["parts"]))
        case RefreshMethod.LATEST_ROWS:
            return Recent(record["input"], record["column"], timedelta(seconds=record["seconds"]))
        case RefreshMethod.FULL_RECOMPUTE:
            return Full(record["reason"])
    raise ValueError(f"{record['kind']!r} is no refresh method")


def _way(step: Via) -> dict[str, str]:
    return {"column": step.column, "through": step.through, "as_column": step.as_column}


def _upsert_of(record: Mapping[str, Any]) -> ByKey:
    paths = {}
    for name, steps in record["paths"].items():
        first, *more = (Via(**step) for step in steps)
        paths[name] = replace(first, also=tuple(more))
    return ByKey(record["key"], paths, dict(record["columns"]))


def _kept_of(record: Mapping[str, Any]) -> KeptPart:
    items = tuple(KeptItem(**item) for item in record["items"])
    by = _upsert_of(record["by"]) if record["by"] else None
    return KeptPart(**{**record, "items": items, "by": by, "whole": tuple(record["whole"])})


def _entry_of(record: Mapping[str, Any]) -> Entry:
    return Entry(**{**record, "method": _method_of(record["method"]), "proof": _proof_of(record["proof"])})


def _proof_of(record: Mapping[str, Any]) -> Proof:
    columns = {name: _columns(entries) for name, entries in record["inputs"].items()}
    reads = {
        part: {name: tuple(map(str, names)) for name, names in columns_read.items()}
        for part, columns_read in record["reads"].items()
    }
    needs = {name: _needs_of(entry) for name, entry in record["needs"].items()}
    known = {"columns": _columns(record["columns"]), "inputs": columns, "reads": reads, "needs": needs}
    return Proof(**{**record, **known})


def _needs_of(record: Mapping[str, Any]) -> Needs:
    reads = (Read(**{**read, "links": tuple(Link(**link) for link in read["links"])}) for read in record["reads"])
    return Needs(tuple(reads), tuple(record["required"]))


def _columns(entries: Iterable[Iterable[Any]]) -> tuple[tuple[str, str, bool], ...]:
    return tuple((str(name), str(kind), bool(nullable)) for name, kind, nullable in entries)
