"""Write docs/reference from the code: settings, commands, tables, types, event log. A test fails where one drifted."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import click
from sqlglot import exp
from sqlglot.lineage import Node, lineage
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from medallion.cli.main import cli
from medallion.inspect.column_descriptions import column_descriptions
from medallion.inspect.column_lineage import ColumnOf
from medallion.model.parsed_query import parse
from medallion.model.table import ChangeLog, Feed, Table
from medallion.ops.event_schema import DESCRIPTIONS, ENGINES, EVENT_TYPES, STATUSES
from medallion.project import find_project
from medallion.settings import PREFIX, Settings
from scripts import source_types

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
GENERATED = "<!-- Written by scripts/reference.py from the code: change it there. -->"
WIDTH = 100
# Read by one part alone, where it begins.
OTHER_VARIABLES = (
    ("MEDALLION_ALERT_URL", "", "Address to which alerts of the DAG are posted; without it none"),
    ("MEDALLION_ALERT_FORMAT", "json", "`json`, or `text` for the incoming webhook of a chat such as Slack"),
    ("MEDALLION_AIRFLOW_PORT", "8080", "Port of the Airflow that `medallion airflow up` starts"),
    ("SPARK_CONNECT_AUTHENTICATE_TOKEN", "", "Secret of a warm Spark; `medallion airflow up` draws one"),
)


def settings_page() -> str:
    """Return the environment variables with their defaults."""
    rows = [
        (f"`{PREFIX}{name.upper()}`", _code(_default(field.default)), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    rows += [(f"`{name}`", _code(default), text) for name, default, text in OTHER_VARIABLES]
    return _page(
        "Settings",
        "Environment variables, which override the section `[settings]` of a project's `medallion.toml`.",
        _grid(("variable", "default", ""), rows),
    )


def commands_page() -> str:
    """Return the help text of every command."""
    parts = [f"## `{name}`\n\n```text\n{text}\n```" for name, text in _help("medallion", cli, None)]
    return _page("Commands", "Exit code 0 is success, 1 a failure, 2 wrong use.", *parts)


def _help(name: str, command: click.Command, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=name.split()[-1], parent=parent, **command.context_settings)
    context.terminal_width = context.max_content_width = WIDTH
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    yield name, text
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            child = command.get_command(context, word)
            if child is not None and not child.hidden:
                yield from _help(f"{name} {word}", child, context)


def event_log_page() -> str:
    """Return the columns of the event log and the words they are written in."""
    columns = [(f"`{name}`", kind, text) for name, (kind, text) in DESCRIPTIONS.items()]
    types = [(f"`{name}`", text) for name, text in EVENT_TYPES.items()]
    statuses = [(f"`{name}`", text) for name, text in STATUSES.items()]
    return _page(
        "Event log",
        "`<lake>/ops/event_log`, a Delta table. One row per step and table, failed ones too.",
        _grid(("column", "type", "meaning"), columns),
        "## Event types\n\n" + _grid(("`event_type`", "what it times"), types),
        "## Statuses\n\n" + _grid(("`status`", "meaning"), statuses),
        f"## Engines\n\n{', '.join(f'`{name}`' for name in ENGINES)}.",
    )


def source_types_page() -> str:
    """Return what each type of a feed is read from in each format."""
    return _page(
        "Types of feeds",
        "What a column of a feed is read from, by the type it is declared with and the format of its source.\n"
        "Each form was tried with each type; what is not named here rejects the record, with the column and the value.",
        _grid(source_types.HEAD, source_types.rows()),
        source_types.RULES,
    )


def tables_page() -> str:
    """Return every table with its grain, refresh method, inputs and columns, what they mean and come from."""
    tables = find_project().registry(extras=True)
    described = column_descriptions(tables)
    known: dict[str, dict[str, str]] = {}
    parts: list[str] = []
    layer = ""
    for table in tables:
        if table.layer != layer:
            layer = table.layer
            parts.append(f"## {layer.capitalize()}")
        parts.append(_table(table, known, described))
    intro = (
        "Tables marked *extra* need a lake loaded with `MEDALLION_EXTRAS=true`. Computed decimals show no precision."
    )
    return _page("Tables", intro, *parts)


def _table(table: Feed | ChangeLog | Table, known: dict[str, dict[str, str]], described: Mapping[ColumnOf, str]) -> str:
    facts = [f"keys `{', '.join(table.keys)}`"] if not isinstance(table, ChangeLog) else []
    facts += [f"tags {', '.join(f'`{tag}`' for tag in table.tags)}"] if table.tags else []
    if isinstance(table, Table):
        facts += [table.refresh_method, "reads " + ", ".join(f"[{name}](#{name})" for name in table.inputs)]
        rows = list(_columns(table, known))
    else:
        known[table.name] = {column.name: column.type for column in table.columns}
        rows = [(c.name, c.type, "the source, not null" if c.required else "the source") for c in table.columns]
    title = f"### {table.name}" + ("\n\n*extra*" if table.extra else "")
    about = " ".join(table.doc.split())
    facts_line = "; ".join(facts).capitalize() + "." if facts else ""
    lines = [
        (f"`{name}`", kind, described.get(ColumnOf(table.name, name.lower()), ""), origin)
        for name, kind, origin in rows
    ]
    columns = _grid(("column", "type", "meaning", "from"), lines)
    return "\n\n".join(part for part in (title, about, facts_line, columns) if part)


def _columns(table: Table, known: dict[str, dict[str, str]]) -> Iterator[tuple[str, str, str]]:
    tree = parse(table.query, table.inputs)
    names = [select.alias_or_name for select in tree.selects]
    schema: dict[str, object] = dict(known)
    typed = qualify(tree.copy(), schema=schema, dialect="spark", quote_identifiers=False, identify=False)
    typed = annotate_types(typed, schema=schema, dialect="spark")
    assert isinstance(typed, exp.Query)
    if "*" in names:  # SELECT * of rows that were kept apart: the columns of the query inside
        names = [select.alias_or_name for select in typed.selects]
    known[table.name] = {}
    for name, select in zip(names, typed.selects, strict=True):
        kind = select.type.sql("spark") if select.type else "UNKNOWN"
        known[table.name][name] = "TIMESTAMP" if kind == "UNKNOWN" else kind  # DATE_TRUNC alone
        origins = sorted(set(_origins(lineage(select.alias_or_name, typed, schema=schema, dialect="spark"))))
        family = known[table.name][name].partition("(")[0]
        yield name, family, ", ".join(f"`{origin}`" for origin in origins)


def _origins(node: Node) -> Iterator[str]:
    for leaf in node.walk():
        if not leaf.downstream and isinstance(leaf.expression, exp.Table):
            yield f"{leaf.expression.name}.{leaf.name.rpartition('.')[2]}"


def _default(value: object) -> str:
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace(str(ROOT) + os.sep, "").removesuffix(".0")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _grid(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("|" + "|".join(f" {cell.replace('|', chr(92) + '|')} " for cell in line) + "|" for line in lines)


def _page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", GENERATED, *parts)) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "tables.md": tables_page,
    "source-types.md": source_types_page,
    "event-log.md": event_log_page,
}


def main(folder: Path = FOLDER) -> None:
    """Write every page."""
    for name, render in PAGES.items():
        (folder / name).write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
