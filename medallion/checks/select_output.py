"""The columns that a SELECT gives: which of them are columns of what it reads, under their own names."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from medallion.checks.query_tree import Node, column_of, nodes
from medallion.checks.unproven import require

_STAR_CHANGES = ("exclude_list", "qualified_exclude_list", "replace_list", "rename_list", "columns")


@dataclass(frozen=True)
class Output:
    """What a SELECT gives: by name, the column that it is, or None for another value; and whether it has a star.

    has_other_star: whether one is of what is not its rows, as of a struct, or of what an outer join fills with nulls.
    repeated: names that several of its columns may have, of which DuckDB calls the second name_1.
    """

    named: Mapping[str, str | None]
    has_star: bool
    has_other_star: bool
    repeated: Collection[str]

    @classmethod
    def of(cls, select: Node, aliases: Iterable[str]) -> "Output":
        """Return what ``select`` gives. aliases: those that a plain column, or a star, may be qualified with."""
        named: dict[str, str | None] = {}
        repeated: set[str] = set()
        has_star = has_other_star = False
        for item in select["select_list"]:
            if item.get("type") == "STAR":
                require(
                    not any(item.get(part) for part in _STAR_CHANGES),
                    "a star in it leaves columns out, or replaces them",
                )
                has_star = True
                has_other_star |= bool(alias := item.get("relation_name")) and alias.lower() not in aliases
            else:
                is_named = not any(node.get("type") in {"STAR", "POSITIONAL_REFERENCE"} for node in nodes(item))
                require(is_named, "COLUMNS(), or the number of a column, gives a column of any name")
                column = column_of(item, aliases)
                name = str(item.get("alias") or column or "").lower()
                repeated |= {name} & named.keys()
                named[name] = column if named.get(name, column) == column else None
        return cls(named, has_star, has_other_star, {*named} if has_star else repeated)

    def keeps(self, columns: Iterable[str]) -> bool:
        """Whether it gives these columns as they are, under their own names."""
        names = {column.lower() for column in columns}
        if any(re.fullmatch(rf"{re.escape(name)}_\d+", key) for name in self.repeated for key in names):
            return False
        if self.has_star:
            return not self.has_other_star and not names & self.named.keys()
        return all(self.named.get(name) == name for name in names)
