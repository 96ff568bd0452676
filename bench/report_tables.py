"""The tables of the benchmark report: what hours, phases and a month take, and under which conditions."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.measures import Key, series_of_first_repeat, size_label
from bench.parts import Cells
from bench.plan import PHASES, VIEWS
from medallion.hours import MONTH_HOURS

_SIZES = ("changed", "read", "written")  # rows of Bronze, and bytes
_FIELDS = (("seconds", 2), ("cpu_seconds", 2), ("bytes_out", 2, 1e6), ("files", 0), ("commits", 0), ("jobs", 0))


def hours_table(totals: Mapping[Key, Sequence[Mapping[str, Any]]]) -> Cells:
    """Make the table of what an hour takes, by history, change and strategy."""
    names = ("history", "change", "strategy", "hours", "refresh, median s", "whole, median s", "p95", "largest")
    more = ("CPU s", "MB written", "files", "commits")
    rows = []
    for (days, change, name), hours in totals.items():
        seconds = sorted(m["seconds"] for m in hours)
        middle = {
            field: statistics.median(m[field] or 0 for m in hours)
            for field in ("refresh", "cpu_seconds", "bytes_out", "files", "commits")
        }
        rows.append(
            (
                *(f"{days} d", f"x{change:g}", name, len(hours), f"{middle['refresh']:.1f}"),
                f"{statistics.median(seconds):.1f}",
                f"{seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))]:.1f}",
                f"{seconds[-1]:.1f}",
                "" if hours[0]["cpu_seconds"] is None else f"{middle['cpu_seconds']:.1f}",
                f"{middle['bytes_out'] / 1e6:.1f}",
                f"{middle['files']:.0f}",
                f"{middle['commits']:.0f}",
            )
        )
    return Cells("What an hour takes", (*names, *more), rows)


def phases_table(result: Mapping[str, Any], totals: Mapping[Key, Any]) -> Cells:
    """Make the table of what each phase of an hour takes, folded away."""
    measures: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for m in result["measures"]:
        if m["warm"] and m["phase"] != "total":
            measures.setdefault((m["days"], m["change"], m["strategy"], m["phase"]), []).append(m)
    rows = []
    for days, change, name in totals:
        for phase in (*PHASES, VIEWS):
            group = measures.get((days, change, name, phase), [])
            if any(m["seconds"] for m in group):
                rows.append((f"{days} d", f"x{change:g}", name, phase, *(_middle(group, *field) for field in _FIELDS)))
    names = ("history", "change", "strategy", "phase", "median s", "CPU s", "MB written", "files", "commits", "jobs")
    return Cells("By phase", names, rows, folded=True)


def _middle(measures: Sequence[Mapping[str, Any]], field: str, digits: int, unit: float = 1.0) -> str:
    """The median of a field, nothing where it is not known."""
    known = [m[field] / unit for m in measures if m.get(field) is not None]
    return f"{statistics.median(known):.{digits}f}" if known else ""


def bytes_table(result: Mapping[str, Any]) -> Cells:
    """Make the table of the bytes that an hour reads and writes, and of the same for each changed row of Bronze."""
    hours: dict[tuple[Any, ...], dict[str, float]] = {}
    for m in result["measures"]:
        if m["warm"]:
            hour = hours.setdefault((m["days"], m["change"], m["strategy"], m["repeat"], m["hour"]), {})
            if m["phase"] == "apply" and m["rows_out"]:
                hour["changed"] = m["rows_out"]
            if m["phase"] == "total" and m.get("bytes_read"):
                hour |= {"read": m["bytes_read"], "written": m["bytes_out"]}
    groups: dict[Key, list[dict[str, float]]] = {}
    for (days, change, name, *_), hour in hours.items():
        if len(hour) == len(_SIZES):  # an engine that is pushed to tells neither
            groups.setdefault((days, change, name), []).append(hour)
    rows = []
    for (days, change, name), group in groups.items():
        changed, read, written = (statistics.median(hour[part] for hour in group) for part in _SIZES)
        sizes = (f"{read / 1e6:.1f}", f"{written / 1e6:.1f}", f"{read / changed / 1e3:.1f}")
        rows.append((f"{days} d", f"x{change:g}", name, f"{changed:,.0f}", *sizes, f"{written / changed / 1e3:.1f}"))
    names = ("history", "change", "strategy", "changed rows", "MB read", "MB written")
    return Cells("Bytes", (*names, "kB read a row", "kB written a row"), rows)


def choices_table(result: Mapping[str, Any]) -> Cells:
    """Make the table of how often the cheaper way was chosen, by history, change and repeat."""
    rows = []
    for place, found in result.get("choices", {}).items():
        days, change, repeat = place.split()
        history = f"{days} d" if repeat == "1" else f"{days} d, repeat {repeat}"
        wrong = "; ".join(
            f"{name}: {took:.2f} s, not {instead:.2f}" for name, (took, instead) in found["wrong"].items()
        )
        share = f"{found['right'] / found['made']:.0%}" if found["made"] else ""
        rows.append((history, f"x{change}", f"{found['made']:,}", share, wrong))
    return Cells("Choices", ("history", "change", "refreshes with a choice", "right", "wrong ones"), rows)


def bill_table(totals: Mapping[Key, Sequence[Mapping[str, Any]]]) -> Cells:
    """Make the table of core-hours of a month, at a price that the reader sets."""
    rows, prices = [], []
    for (days, change, name), hours in totals.items():
        if hours[0]["cpu_seconds"] is None:
            continue  # another's machine
        core_hours = MONTH_HOURS * statistics.median(m["cpu_seconds"] for m in hours) / 3600
        rows.append((f"{days} d", f"x{change:g}", name, f"{core_hours:.1f}"))
        prices.append(f"{core_hours:.4f}")
    return Cells("What a month costs", ("history", "change", "strategy", "core-hours", "price"), rows, prices)


def first_hours_table(result: Mapping[str, Any]) -> Cells:
    """Make the table of the hours that warm a driver up."""
    rows = []
    for (days, change, name), hours in series_of_first_repeat(result).items():
        start = result["session_seconds"][f"{days} {change:g} {name}"]
        first = [f"{m['seconds']:.1f}" for m in hours if not m["warm"]]
        rows.append((f"{days} d", f"x{change:g}", name, f"{start:.1f}", *first))
    numbers = (f"hour {n}" for n in range(1, result["plan"]["warm_up"] + 1))
    return Cells("The first hours", ("history", "change", "strategy", "start", *numbers), rows)


def conditions_table(result: Mapping[str, Any]) -> Cells:
    """Make the table of machine, rounds and scale."""
    plan = result["plan"]
    state_sizes = ", ".join(
        f"{size / 1e6:.1f} MB at {days} days" for days, size in result["kept_bytes"].items() if size
    )
    facts = {
        **result["machine"],
        "rounds": "; ".join(
            f"{size_label(entry['days'], entry['change'])} (code {entry['commit']}, load after it {entry['load']})"
            for entry in result["rounds"]
        ),
        "scale": f"{plan['scale']:g} times the demo shop",
        "hours counted": f"{plan['hours']} after {plan['warm_up']} in each round, which has fresh drivers and lakes",
        "changes": "of all tables" if plan["catalogue"] else "of orders, items, clicks and stock alone",
        "rows": "equal in all strategies after every hour, or there would be no report",
        "state of incremental": state_sizes or "none",
        "queue": "none: no scheduler stands between the hours here",
        **service_rows(result),
    }
    return Cells("Conditions", ("what", "value"), [(name, str(value)) for name, value in facts.items()])


def service_rows(result: Mapping[str, Any]) -> dict[str, str]:
    """Describe each service: its workers, what its cold start took, and its size after the last hour."""
    return {
        f"{start.split()[-1]}, {size_label(int(start.split()[0]), float(start.split()[1]))}": (
            f"{facts['workers']} workers; {_compilation(facts['compile_seconds'])}, deployed in"
            f" {facts['deploy_seconds']:.1f} s, snapshot in {facts['snapshot_seconds']:.1f} s; afterwards"
            f" {_megabytes(facts['memory_bytes'])} of memory, {_megabytes(facts['storage_bytes'])} of storage, as it"
            " reports them; views are read apart, not in its seconds"
        )
        for start, facts in result.get("services", {}).items()
    }


def _compilation(seconds: float | None) -> str:
    return "compiled by an earlier run" if seconds is None else f"compiled in {seconds:.1f} s"


def _megabytes(size: float | None) -> str:
    if size is None:
        return "an unknown amount"
    return f"{size / 1e6:,.0f} MB" if size >= 500_000 else "less than 1 MB"
