"""The page of the benchmark report: the lake's own report if it exists, else the one that ships with the project."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medallion.html.templating import render
from medallion.settings import PACKAGE
from medallion.storage.files import Place, read_json
from medallion.storage.lake import Lake

SHIPPED = PACKAGE.parent / "docs" / "benchmark" / "report.html"


@dataclass(frozen=True)
class BenchmarkReport:
    """A report that exists; is_own: whether it was made for this lake."""

    file: Place
    is_own: bool


def find_report(lake: Lake, shipped: Path = SHIPPED) -> BenchmarkReport | None:
    """Return the report to show; None if there is no own report and none ships with this installation."""
    if lake.benchmark.is_file():
        return BenchmarkReport(lake.benchmark, is_own=True)
    return BenchmarkReport(shipped, is_own=False) if shipped.is_file() else None


def benchmark_page(lake: Lake, shipped: Path = SHIPPED) -> str:
    """Render the page around the report: the machine that it was made on, and the command to make your own."""
    report = find_report(lake, shipped)
    measures: Mapping[str, Any] = read_json(report.file.parent / "measures.json") or {} if report else {}
    machine = measures.get("machine", {})
    rounds = measures.get("rounds") or [{}]
    return render(
        "benchmark.html",
        title="Benchmark",
        page="benchmark",
        report=report,
        machine=", ".join(str(machine[name]) for name in ("processor", "memory") if name in machine),
        commit=rounds[-1].get("commit"),
        command=f"medallion bench run --out {lake.benchmark.parent}",
    )
