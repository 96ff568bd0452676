"""The page of published releases: list them, compare two, and roll back to one."""

from collections.abc import Sequence
from typing import Any

from medallion.counts import counted
from medallion.html.templating import Grid, Link, RunLink, render, render_notice
from medallion.inspect.query import diff, diff_rows
from medallion.model.registry import Registry
from medallion.ops import releases
from medallion.storage.lake import Lake
from medallion.ui.results import NOTHING
from medallion.ui.values import cell_text

SHOWN = 50
SHOWN_ROWS = 50
COLUMNS = ("release", "hour", "published (UTC)", "strategy of the run", "tables", "note", "run")


def releases_page(lake: Lake, tables: Registry, old: int | None, new: int | None, table: str = "") -> str:
    """Render the kept releases. old, new: two releases to compare. table: the table whose differing rows are shown.

    Raises UsageError for a release or table that does not exist.
    """
    retained = releases.read_all(lake)
    if not retained:
        return render_notice("Releases", NOTHING, "releases")
    rows = [
        (
            str(release.release_id),
            release.hour or "snapshot",
            release.published_at,
            release.strategy,
            len(release.versions),
            _note(release, retained),
            RunLink(release.run_id),
        )
        for release in reversed(retained[-SHOWN:])
    ]
    comparison, differing = None, None
    if old is not None and new is not None:
        comparison = _comparison(lake, tables, old, new)
        differing = _differing_rows(lake, tables, (old, new), table) if table else None
    return render(
        "releases.html",
        title="Releases",
        page="releases",
        numbers=[release.release_id for release in reversed(retained[-SHOWN:])],
        newest=retained[-1],
        old=old if old is not None else retained[max(0, len(retained) - 2)].release_id,
        new=new if new is not None else retained[-1].release_id,
        releases=Grid(f"The last {counted(len(rows), 'release')}, newest first", COLUMNS, rows, {0, 4}),
        comparison=comparison,
        differing=differing,
    )


def _note(release: releases.Release, retained: Sequence[releases.Release]) -> str:
    if release.restores is not None:
        return f"release {release.restores} again"
    earlier = (former.hour for former in retained if former.release_id < release.release_id)
    return "restated or reprocessed" if release.hour in earlier else ""


def _comparison(lake: Lake, tables: Registry, old: int, new: int) -> Grid:
    a, b = releases.require_release(lake, old), releases.require_release(lake, new)
    rows: list[Sequence[Any]] = [
        (
            Link(difference.table, f"releases?old={old}&new={new}&table={difference.table}#rows")
            if difference
            else difference.table,
            *(difference.added, difference.removed, difference.changed),
        )
        for difference in diff(lake, a, b, tables)
    ]
    caption = f"Rows from release {old} to release {new}; choose a table for the rows themselves"
    return Grid(caption, ("table", "added", "removed", "changed"), rows, {1, 2, 3})


def _differing_rows(lake: Lake, tables: Registry, numbers: tuple[int, int], table: str) -> Grid:
    a, b = (releases.require_release(lake, number) for number in numbers)
    names, rows = diff_rows(lake, a, b, tables[table], SHOWN_ROWS)
    keys = tables[table].keys
    texts = [[cell_text(name, "", value, keys) for name, value in zip(names, row, strict=True)] for row in rows]
    caption = f"{table}: - as in release {numbers[0]}, + as in release {numbers[1]}; {len(rows)} rows at most"
    return Grid(caption, names, texts)
