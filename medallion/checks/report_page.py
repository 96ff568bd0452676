"""The pages of validation reports: pure functions from results as dictionaries (result.to_dict) to HTML.

Self-contained: nothing from the network. Whatever comes from data is escaped.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import dedent
from typing import Any
from urllib.parse import quote

from medallion.checks.result import BY_SPARK
from medallion.counts import counted
from medallion.html import templating
from medallion.ops.event_schema import WORST_FIRST

_SUMMARY = ("status", "layer", "hour", "page", "started_at", "seconds", "run_id", "attempt")
_COUNTS = "statuses"  # in a summary: how many expectations have each status
_ROWS_READ = {"unchanged rows": "none, as no row changed"}  # by what an expectation looked at, where the page says more
_WORDS = {"succeeded": "passed", "warned": "warning", "failed": "failed"}


def render(result: Mapping[str, Any], before: Sequence[Mapping[str, Any]] = ()) -> str:
    """Render the page of one check: what failed first, then every table with every expectation.

    before: earlier checks of the same layer, newest first; beside each expectation stands how it fared in them.
    """
    broken = [
        (table["table"], expectation)
        for status in WORST_FIRST[:-1]
        for table in result["tables"]
        for expectation in table["expectations"]
        if expectation["status"] == status
    ]
    trends = _trends([*reversed(before), result])
    return templating.render(
        "report.html",
        title=f"{result['layer'].capitalize()} check, {result['hour']}",
        name=str(result["page"]).rsplit("/", 1)[-1].removesuffix(".html"),
        result=result,
        lead=_lead(result),
        facts=_facts(result),
        broken=broken,
        tables=sorted(result["tables"], key=lambda table: WORST_FIRST.index(table["status"])),
        words=_WORDS,
        percent=_percent,
        examples_caption=_examples_caption,
        dedent=dedent,
        rows_read=_rows_read,
        table_facts=_table_facts,
        trend=lambda table, meaning: trends[table, meaning],
    )


def summarize(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the index says of a check."""
    return {name: result[name] for name in _SUMMARY} | {_COUNTS: dict(_statuses(result))}


def is_summary(line: Mapping[str, Any]) -> bool:
    """Check whether ``line`` has what ``summarize`` returns."""
    return line.keys() >= {*_SUMMARY, _COUNTS} and isinstance(line[_COUNTS], dict)


def render_index(summaries: Sequence[Mapping[str, Any]]) -> str:
    """The page that lists checks in the order given, from what ``summarize`` returns for each."""
    rows = [
        (
            *(check["status"], f"{check['layer']} {check['hour']}", check["page"]),
            (
                *(_moment(check["started_at"]), _count_failed(check[_COUNTS]), f"{check['seconds']:.1f} s"),
                f"{check['run_id']}, attempt {check['attempt']}",
            ),
        )
        for check in summaries
    ]
    return templating.render(
        "report_list.html",
        title="Validation reports",
        lead=f"The last {counted(len(summaries), 'check')}, newest first.",
        other=("Data Docs", "gx/site/index.html"),
        columns=("Status", "Check", "Started (UTC)", "Failed", "Took", "Run"),
        rows=rows,
    )


def render_docs_index(results: Sequence[tuple[str, str, bool, str]]) -> str:
    """The page that lists Great Expectations' pages: suite, run, whether all passed, and where the page is."""
    return templating.render(
        "report_list.html",
        title="Data Docs",
        lead="Pages of Great Expectations, newest first.",
        other=("All checks", "../../index.html"),
        columns=("Status", "Suite", "Run"),
        rows=[
            ("succeeded" if success else "failed", suite, quote(page), (run,)) for suite, run, success, page in results
        ],
    )


def _facts(result: Mapping[str, Any]) -> dict[str, str]:
    return {
        "Hour": f"{result['hour']} (UTC)",
        "Run": f"{result['run_id']}, attempt {result['attempt']}",
        "Started": f"{_moment(result['started_at'])} UTC",
        "Took": f"{result['seconds']:.1f} s, of which loading Great Expectations {result['startup_seconds']:.1f} s",
        "Rows read": _rows_read_by_all(result),
        "Delta versions": ", ".join(f"{table} {version}" for table, version in sorted(result["versions"].items())),
    }


def _rows_read(line: Mapping[str, Any]) -> str:
    """Which rows an expectation was judged on."""
    return _ROWS_READ.get(line["looked_at"], str(line["looked_at"]))


def _rows_read_by_all(result: Mapping[str, Any]) -> str:
    """How many expectations were judged on whole tables, on changed rows, and without reading any."""
    ways = Counter(_rows_read(line) for table in result["tables"] for line in table["expectations"])
    if not ways:
        return "none"
    counts = "; ".join(f"{counted(count, 'expectation')}: {way}" for way, count in ways.most_common())
    return f"{counts}; {'the rest ' if BY_SPARK in ways else ''}by DuckDB"


def _moment(iso: str) -> str:
    return iso[:19].replace("T", " ")


def _lead(result: Mapping[str, Any]) -> str:
    statuses = _statuses(result)
    expectations, tables = sum(statuses.values()), len(result["tables"])
    of_all = f"{counted(expectations, 'expectation')} on {counted(tables, 'table')}"
    if statuses["succeeded"] == expectations:
        return f"All of {of_all} passed."
    return f"Of {of_all}, {_not_passed(statuses)}."


def _table_facts(table: Mapping[str, Any]) -> str:
    facts = [
        f"{table['rows']:,} rows" if table["rows"] is not None else "not read",
        f"version {table['version']}" if table["version"] is not None else "",
        f"{table['seconds']:.2f} s",
    ]
    return ", ".join(fact for fact in facts if fact)


def _trends(checks: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """By table and meaning of an expectation, its status and words in each check that looked at it, in their order."""
    trends: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for check in checks:
        for table in check["tables"]:
            for line in table["expectations"]:
                words = f"{check['hour']}: {_WORDS[line['status']]}, {line['observed']}{_percent(line)}"
                trends.setdefault((table["table"], line["meaning"]), []).append((line["status"], words))
    return trends


def _percent(expectation: Mapping[str, Any]) -> str:
    percent = expectation["unexpected_percent"]
    return f", {percent:.3g} %" if percent else ""


def _examples_caption(expectation: Mapping[str, Any]) -> str:
    shown = len(expectation["examples"])
    return f"What its query finds, the first {shown}" if expectation["query"] else f"{shown} of the records that failed"


def _count_failed(statuses: Mapping[str, int]) -> str:
    return f"{_not_passed(statuses) or 'none'} of {sum(statuses.values())}"


def _statuses(result: Mapping[str, Any]) -> Counter[str]:
    return Counter(line["status"] for table in result["tables"] for line in table["expectations"])


def _not_passed(statuses: Mapping[str, int]) -> str:
    """Say how many expectations failed and how many gave a warning, which is no failure."""
    return " and ".join(f"{statuses[status]} {status}" for status in WORST_FIRST[:-1] if statuses.get(status))
