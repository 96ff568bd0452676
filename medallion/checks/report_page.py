"""The pages of validation reports: pure functions from results as dictionaries (result.to_dict) to HTML.

Self-contained: no script, nothing from the network. Whatever comes from data is escaped.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from textwrap import dedent
from typing import Any
from urllib.parse import quote

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --line: #e0e1e6; --page: #fff; --panel: #f7f8fa;
  --succeeded: #1a7f4b; --warned: #9a6700; --failed: #c62a2f; --link: #0b61c4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9ba1a8; --line: #33373d; --page: #15171a;
  --panel: #1d2024; --succeeded: #4cc38a; --warned: #e2a336; --failed: #ff6369; --link: #6cb0ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0; } a { color: var(--link); }
nav { margin-bottom: 1.25rem; color: var(--soft); } nav a { margin-right: 1rem; }
.lead, .soft { color: var(--soft); } .lead { margin: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem; margin: 1rem 0 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.status { font-weight: 600; white-space: nowrap; }
.succeeded { color: var(--succeeded); } .warned { color: var(--warned); } .failed { color: var(--failed); }
.badge { border: 1px solid currentColor; border-radius: 1rem; font-size: .85rem; padding: .1rem .6rem;
  vertical-align: 2px; }
.card { background: var(--panel); border: 1px solid var(--line); border-left: 4px solid; border-radius: 6px;
  margin: .75rem 0; padding: .75rem 1rem; }
.card.failed { border-left-color: var(--failed); } .card.warned { border-left-color: var(--warned); }
.card > * { color: var(--ink); } .card p { margin: .15rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; text-align: left; white-space: nowrap; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .75rem .35rem 0; vertical-align: top; }
.examples { margin-top: .5rem; width: auto; font-size: .88rem; } .examples td { white-space: pre; }
.number, .whole { white-space: nowrap; } .number { text-align: right; }
.trend { display: inline-flex; gap: 2px; }
.trend i { width: 6px; height: 8px; margin-top: 8px; background: currentColor; }
.trend i.warned { height: 11px; margin-top: 5px; } .trend i.failed { height: 14px; margin-top: 2px; }
pre { margin: .5rem 0 0; overflow-x: auto; font-size: .85rem; } summary { color: var(--soft); cursor: pointer; }
"""
_WORDS = {"succeeded": "holds", "warned": "warning", "failed": "failed"}
_ORDER = ("failed", "warned", "succeeded")


def render(result: Mapping[str, Any], before: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page of one check: what is broken first, then every table with every expectation.

    before: earlier checks of the same layer, newest first; beside each expectation stands how it fared in them.
    """
    broken = [
        (table["table"], expectation)
        for status in ("failed", "warned")
        for table in result["tables"]
        for expectation in table["expectations"]
        if expectation["status"] == status
    ]
    promises = sum(len(table["expectations"]) for table in result["tables"])
    checks = [*reversed(before), result]
    title = f"{result['layer'].capitalize()} check, {result['hour']}"
    name = str(result["page"]).rsplit("/", 1)[-1].removesuffix(".html")
    facts = {
        "Hour": f"{result['hour']} (UTC)",
        "Run": f"{result['run_id']}, attempt {result['attempt']}",
        "Started": f"{_moment(result['started_at'])} UTC",
        "Took": f"{result['seconds']:.1f} s, of which loading Great Expectations {result['startup_seconds']:.1f} s",
        "Looked at": f"{_looked_at(result)}, through DuckDB",
        "Delta versions": ", ".join(f"{table} {version}" for table, version in sorted(result["versions"].items())),
    }
    return _page(
        title,
        f'<nav><a href="../index.html">All checks</a><a href="{escape(name)}.json">This result as JSON</a>'
        '<a href="../gx/site/index.html">Data Docs</a></nav>'
        f"<h1>{escape(title)} {_badge(result['status'])}</h1>"
        f'<p class="lead">{_lead(len(broken), promises, len(result["tables"]))}</p>'
        f"<dl>{''.join(f'<dt>{escape(k)}</dt><dd>{escape(v)}</dd>' for k, v in facts.items())}</dl>",
        "<h2>What is broken</h2>" if broken else "",
        *(_card(table, expectation) for table, expectation in broken),
        *(_table(table, checks) for table in sorted(result["tables"], key=lambda table: _ORDER.index(table["status"]))),
    )


def render_index(results: Sequence[Mapping[str, Any]]) -> str:
    """The page that lists ``results`` in the order given."""
    rows = (
        f"<tr><td>{_badge(result['status'])}</td>"
        f'<td class="whole"><a href="{escape(result["page"])}">'
        f"{escape(result['layer'])} {escape(result['hour'])}</a></td>"
        f'<td class="whole">{escape(_moment(result["started_at"]))}</td>'
        f'<td class="number">{_count_broken(result)}</td>'
        f'<td class="number">{result["seconds"]:.1f} s</td>'
        f'<td class="soft">{escape(result["run_id"])}, attempt {escape(str(result["attempt"]))}</td></tr>'
        for result in results
    )
    head = (
        "<tr><th>Status</th><th>Check</th><th>Started (UTC)</th>"
        '<th class="number">Broken</th><th class="number">Took</th><th>Run</th></tr>'
    )
    return _page(
        "Validation reports",
        f'<h1>Validation reports</h1><p class="lead">The last {len(results)} checks, newest first.</p>',
        '<nav><a href="gx/site/index.html">Data Docs</a></nav>',
        f'<div class="wide"><table>{head}{"".join(rows)}</table></div>',
    )


def render_docs_index(results: Sequence[tuple[str, str, bool, str]]) -> str:
    """The page that lists Great Expectations' pages: suite, run, whether all passed, and where the page is."""
    rows = (
        f"<tr><td>{_badge('succeeded' if success else 'failed')}</td>"
        f'<td class="whole"><a href="{escape(quote(page))}">{escape(suite)}</a></td><td>{escape(run)}</td></tr>'
        for suite, run, success, page in results
    )
    return _page(
        "Data Docs",
        '<nav><a href="../../index.html">All checks</a></nav>'
        '<h1>Data Docs</h1><p class="lead">Pages of Great Expectations, newest first.</p>',
        '<div class="wide"><table><tr><th>Status</th><th>Suite</th><th>Run</th></tr>'
        + "".join(rows)
        + "</table></div>",
    )


def _page(title: str, *parts: str) -> str:
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _looked_at(result: Mapping[str, Any]) -> str:
    """How many expectations were judged on whole tables, on changed rows, and on none."""
    ways = Counter(line["looked_at"] for table in result["tables"] for line in table["expectations"])
    return ", ".join(f"{way} for {count}" for way, count in ways.most_common()) or "nothing"


def _moment(iso: str) -> str:
    return iso[:19].replace("T", " ")


def _lead(broken: int, promises: int, tables: int) -> str:
    if not broken:
        return f"All {promises} expectations on {tables} tables hold."
    return f"{broken} of {promises} expectations on {tables} tables {'is' if broken == 1 else 'are'} broken."


def _card(table: str, expectation: Mapping[str, Any]) -> str:
    parts = [
        f"<h3>{escape(table)}: {escape(expectation['meaning'])}</h3>",
        f"<p>{_status(expectation['status'])} {escape(expectation['observed'])}{_percent(expectation)}</p>",
    ]
    if expectation["error"]:
        parts.append(f"<p>{escape(expectation['error'])}</p>")
    if expectation["examples"]:
        parts.append(_examples(expectation["examples"]))
    if expectation["query"]:
        parts.append(
            f"<details><summary>The query</summary><pre>{escape(dedent(expectation['query']).strip())}</pre></details>"
        )
    return f'<section class="card {escape(expectation["status"])}">{"".join(parts)}</section>'


def _examples(examples: Sequence[Mapping[str, str | None]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in examples[0])
    rows = ("".join(_value(value) for value in example.values()) for example in examples)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="wide"><table class="examples"><tr>{head}</tr>{body}</table></div>'


def _value(value: str | None) -> str:
    return '<td class="soft">null</td>' if value is None else f"<td>{escape(value)}</td>"


def _table(table: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]) -> str:
    facts = [
        f"{table['rows']:,} rows" if table["rows"] is not None else "not read",
        f"version {table['version']}" if table["version"] is not None else "",
        f"{table['seconds']:.2f} s",
    ]
    rows = (
        f"<tr><td>{_status(line['status'])}</td><td>{escape(line['meaning'])}</td>"
        f'<td class="soft">{escape(line["severity"])}</td><td>{escape(line["observed"])}{_percent(line)}</td>'
        f'<td class="soft">{escape(line["looked_at"])}</td>'
        f"<td>{_trend(table['table'], line['meaning'], checks)}</td></tr>"
        for line in table["expectations"]
    )
    columns = ("Verdict", "Expectation", "Severity", "Observed", "Looked at", "Last checks")
    head = f"<tr>{''.join(f'<th>{column}</th>' for column in columns)}</tr>"
    return (
        f"<h2>{escape(table['table'])} {_badge(table['status'])}</h2>"
        f'<p class="lead">{escape(", ".join(fact for fact in facts if fact))}</p>'
        f'<div class="wide"><table>{head}{"".join(rows)}</table></div>'
    )


def _trend(table: str, meaning: str, checks: Sequence[Mapping[str, Any]]) -> str:
    """A mark for each check that looked at an expectation, oldest first; what it observed is a mark's title."""
    marks = []
    for check in checks:
        for line in (e for t in check["tables"] if t["table"] == table for e in t["expectations"]):
            if line["meaning"] == meaning:
                told = f"{check['hour']}: {_WORDS[line['status']]}, {line['observed']}{_percent(line)}"
                marks.append(f'<i class="{escape(line["status"])}" title="{escape(told)}"></i>')
    return f'<span class="trend">{"".join(marks)}</span>'


def _badge(status: str) -> str:
    return f'<span class="status badge {escape(status)}">{escape(status)}</span>'


def _status(status: str) -> str:
    return f'<span class="status {escape(status)}">{escape(_WORDS[status])}</span>'


def _percent(expectation: Mapping[str, Any]) -> str:
    percent = expectation["unexpected_percent"]
    return f", {percent:.3g} %" if percent else ""


def _count_broken(result: Mapping[str, Any]) -> str:
    statuses = [line["status"] for table in result["tables"] for line in table["expectations"]]
    return f"{len(statuses) - statuses.count('succeeded')} of {len(statuses)}"
