"""Lint the SQL of tables with sqlfluff, by the rules in pyproject.toml: ``python -m scripts.sql_lint [PROJECT...]``.

Findings name module and line. Line length and indentation are ruff's and the author's, as queries stand in Python.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from sqlfluff.core import FluffConfig, Linter

from medallion.model.table import Table
from medallion.project import project_at

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = (ROOT, ROOT / "examples" / "tpch")
_PLACEHOLDER = re.compile(r"(?<!{){(\w+)}(?!})")


def findings(linter: Linter, table: Table) -> Iterator[str]:
    """Yield a line for each violation of the rules in a table's query."""
    assert table.module is not None
    first = table.query.strip().split("\n", 1)[0]
    lines = table.module.read_text(encoding="utf-8").split("\n")
    start = next((number for number, line in enumerate(lines, 1) if first[:30] in line), 1)
    sql = _PLACEHOLDER.sub(r"\1", table.query.strip()).replace("{{", "{").replace("}}", "}")
    for violation in linter.lint_string(f"{sql}\n").get_violations():
        place = table.module.relative_to(ROOT)
        yield f"{place}:{start + violation.line_no - 1}: {violation.rule_code()} {violation.desc()}"


def main() -> int:
    """Lint all projects of the repository, or those in the given folders; exit with 1 if there are violations."""
    linter = Linter(FluffConfig.from_root())
    count = 0
    for root in map(Path, sys.argv[1:] or PROJECTS):
        for table in project_at(Path(root).resolve()).registry(extras=True):
            if isinstance(table, Table) and not table.drops:
                for line in findings(linter, table):
                    print(line)
                    count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
