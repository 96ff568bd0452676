"""Published releases: listed, compared, and which of them readers can be given back."""

from collections.abc import Sequence
from typing import Any

from medallion.inspect.query import diff, diff_rows
from medallion.model.registry import Registry
from medallion.ops import releases
from medallion.storage.lake import Lake
from medallion.templating import Grid, Link, RunLink, in_words, render, render_notice
from medallion.ui.results import NOTHING

SHOWN = 50
SHOWN_ROWS = 50
COLUMNS = ("release", "hour", "published (UTC)", "strategy", "tables", "run")


def releases_page(lake: Lake, tables: Registry, old: int | None, new: int | None, table: str = "") -> str:
    """The releases that are kept; old, new: two that are compared; table: the one whose differing rows are shown.

    Raises UsageError for a release or a table that there is not.
    """
    kept = releases.published(lake)
    if not kept:
        return render_notice("Releases", NOTHING, "releases")
    rows = [
        (one.release_id, one.hour or "snapshot", one.published_at, one.strategy, len(one.versions), RunLink(one.run_id))
        for one in reversed(kept[-SHOWN:])
    ]
    comparison, differing = None, None
    if old is not None and new is not None:
        comparison = _comparison(lake, tables, old, new)
        differing = _differing(lake, tables, (old, new), table) if table else None
    return render(
        "releases.html",
        title="Releases",
        page="releases",
        numbers=[one.release_id for one in reversed(kept[-SHOWN:])],
        newest=kept[-1],
        old=old if old is not None else kept[max(0, len(kept) - 2)].release_id,
        new=new if new is not None else kept[-1].release_id,
        releases=Grid(f"The last {len(rows)} releases, newest first", COLUMNS, rows, {0, 4}),
        comparison=comparison,
        differing=differing,
    )


def _comparison(lake: Lake, tables: Registry, old: int, new: int) -> Grid:
    a, b = releases.find(lake, old), releases.find(lake, new)
    rows: list[Sequence[Any]] = [
        (
            Link(one.table, f"releases?old={old}&new={new}&table={one.table}#rows") if one else one.table,
            *(one.added, one.removed, one.changed),
        )
        for one in diff(lake, a, b, tables)
    ]
    caption = f"Rows from release {old} to release {new}; choose a table for the rows themselves"
    return Grid(caption, ("table", "added", "removed", "changed"), rows, {1, 2, 3})


def _differing(lake: Lake, tables: Registry, numbers: tuple[int, int], table: str) -> Grid:
    a, b = (releases.find(lake, number) for number in numbers)
    names, rows = diff_rows(lake, a, b, tables[table], SHOWN_ROWS)
    texts = [[in_words(value) for value in row] for row in rows]
    caption = f"{table}: - as in release {numbers[0]}, + as in release {numbers[1]}; {len(rows)} rows at most"
    return Grid(caption, names, texts)
