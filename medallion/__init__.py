"""Hourly batch refresh of a medallion lakehouse: the words in which a table is declared."""

from medallion.model.chart import Chart
from medallion.model.dimension import dimension
from medallion.model.table import Additive, ByKey, Feed, Log, Recent, Table, Via

__all__ = ["Additive", "ByKey", "Chart", "Feed", "Log", "Recent", "Table", "Via", "dimension"]
