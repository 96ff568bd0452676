"""Information for people in a declaration: descriptions of columns, the owner, and tags."""

import re
from typing import TYPE_CHECKING

from medallion.errors import BadDeclaration
from medallion.model.chart import output_columns

if TYPE_CHECKING:
    from medallion.model.table import Node

_TAG = re.compile(r"[a-z][a-z0-9_-]{0,39}")


def require_about(where: str, table: "Node") -> None:
    """Raise BadDeclaration, which names the module, for a bad tag, a bad owner or a bad description of a column."""
    from medallion.model.table import Table

    if bad := [tag for tag in table.tags if not _TAG.fullmatch(tag)]:
        raise BadDeclaration(f"{where} has the tag {bad[0]!r}: tags are small letters, digits, _ and -")
    if not table.owner.isprintable():
        raise BadDeclaration(f"{where} has an owner that is not one line of text")
    known = output_columns(table.query) if isinstance(table, Table) and table.descriptions else None
    for column, text in table.descriptions.items():
        if known is not None and column not in known:
            raise BadDeclaration(f"{where} describes {column[:80]}, which it does not have: {', '.join(known)}")
        if not text.strip() or not text.isprintable():
            raise BadDeclaration(f"{where} describes {column} without one line of text: say what its values mean")
