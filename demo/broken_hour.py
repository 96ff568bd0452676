"""A failed hour on purpose: the demo source deletes every supplier, so the check of Bronze finds an empty table."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from demo.generate import existing_plan
from medallion.errors import UsageError

_TOPIC, _KEY = "suppliers", "supplier_id"
_DELETION = re.compile(rf'{{"delete": {{"{_KEY}": \d+}}}}')  # the shop's own deletions have all columns


def break_hour(root: Path, hour: str) -> int:
    """Have the demo source in ``root`` delete every supplier in ``hour``; return how many. Twice is as once.

    Raises:
        UsageError: ``root`` holds no demo source, or the source has no such hour.
    """
    file = _change_file(root, hour)
    keys = sorted({*_keys_in_snapshot(root), *_keys_in_changes(root)})
    deletions = [json.dumps({"delete": {_KEY: key}}) for key in keys]
    file.parent.mkdir(exist_ok=True)
    _write_lines(file, [*_own_lines(file), *deletions])
    return len(deletions)


def mend_hour(root: Path, hour: str) -> int:
    """Take back what ``break_hour`` did; return the lines removed. A file that had none before stays, empty.

    Raises:
        UsageError: As for ``break_hour``.
    """
    file = _change_file(root, hour)
    before, lines = _lines(file), _own_lines(file)
    if len(lines) < len(before):
        _write_lines(file, lines)
    return len(before) - len(lines)


def _change_file(root: Path, hour: str) -> Path:
    if existing_plan(root) is None:
        raise UsageError(f"{root} holds no demo source: name the folder that medallion source generate wrote")
    if not (root / "cdc" / "orders" / f"{hour}.json").is_file():
        raise UsageError(f"the demo source in {root} has no hour {hour}: generate more with --hours")
    return root / "cdc" / _TOPIC / f"{hour}.json"


def _keys_in_snapshot(root: Path) -> list[int]:
    from deltalake import DeltaTable

    table = DeltaTable(root / "snapshot" / f"bronze_{_TOPIC}").to_pyarrow_table(columns=[_KEY])
    keys: list[int] = table[_KEY].to_pylist()
    return keys


def _keys_in_changes(root: Path) -> Iterator[int]:
    for file in (root / "cdc" / _TOPIC).glob("*.json"):
        for line in _own_lines(file):
            (row,) = json.loads(line).values()
            yield int(row[_KEY])


def _own_lines(file: Path) -> list[str]:
    return [line for line in _lines(file) if not _DELETION.fullmatch(line)]


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []


def _write_lines(file: Path, lines: list[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
