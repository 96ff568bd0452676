"""Hourly batch refresh of a medallion lakehouse: the names with which a project declares tables and expectations.

A project imports them from here (``from medallion import Table, not_null``), never from a submodule.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "ChangeLog",
    "Chart",
    "Expectation",
    "Feed",
    "Grouped",
    "Keys",
    "Lookup",
    "RowCount",
    "Rows",
    "Severity",
    "Share",
    "Sums",
    "Table",
    "Tolerance",
    "Window",
    "adds_up",
    "at_least",
    "between",
    "dimension",
    "in_set",
    "no_personal_columns",
    "no_rows",
    "not_empty",
    "not_null",
    "refers_to",
    "sql_list",
    "unique",
]

if TYPE_CHECKING:
    from medallion.expect.literals import sql_list
    from medallion.expect.scopes import Keys, Lookup, RowCount, Rows, Share, Sums, Tolerance, Window
    from medallion.expect.vocabulary import (
        Expectation,
        Grouped,
        Severity,
        adds_up,
        at_least,
        between,
        in_set,
        no_personal_columns,
        no_rows,
        not_empty,
        not_null,
        refers_to,
        unique,
    )
    from medallion.model.chart import Chart
    from medallion.model.dimension import dimension
    from medallion.model.table import ChangeLog, Feed, Table
else:
    _MODULES = (
        "medallion.model.table",
        "medallion.expect.vocabulary",
        "medallion.expect.scopes",
        "medallion.expect.literals",
        "medallion.model.chart",
        "medallion.model.dimension",
    )

    def __getattr__(name: str) -> object:
        """Import a public name on first use, so that set-up and commands that declare nothing start faster."""
        if name in __all__:
            for module in map(import_module, _MODULES):
                if name in vars(module):
                    return globals().setdefault(name, vars(module)[name])
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
