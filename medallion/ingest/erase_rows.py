"""Rows of persons in Bronze: find them by what feeds declare, and delete or blank them, in one commit per table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from medallion.ingest.erased_subjects import PERSON, owners_first, values_for
from medallion.ingest.needles import MIN_LENGTH
from medallion.model.registry import Registry
from medallion.model.table import DELETE, ChangeLog, Feed
from medallion.storage.delta_writes import properties, replace_keys, rows_having, rows_with_keys, with_plain_texts
from medallion.storage.foreign_commits import require_ours
from medallion.storage.lake import Lake, state_of
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.replaced_rows import bronze_metadata
from medallion.storage.table_features import require_writable_here

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class PersonRows:
    """Where rows of persons are in Bronze.

    subjects: by feed, the values of its subject column that stand for these persons. rows: by table, the number of
    their rows. texts: values of personal columns that nobody else has, to find lines that do not name the persons.
    hints: those of letters alone, such as two words, which new lines about others may have. keys: by feed to which the
    subject of another feed refers, the keys of their rows.
    """

    subjects: dict[str, list[Any]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    hints: set[str] = field(default_factory=set)
    keys: dict[str, set[Any]] = field(default_factory=dict)

    def by_kind(self, persons: Sequence[str]) -> Mapping[str, Sequence[Any]]:
        """Return everything that is remembered as a digest, by its kind."""
        return {PERSON: persons, **{name: sorted(keys) for name, keys in self.keys.items()}}


def find_rows(lake: Lake, tables: Registry, persons: Sequence[str], known: Mapping[str, set[Any]] = {}) -> PersonRows:
    """Find the rows of ``persons`` in Bronze, in each feed after the feed that its subject refers to.

    known: keys by feed from an earlier attempt, because the rows that had them may be deleted already.
    """
    person_rows = PersonRows(keys={name: set(keys) for name, keys in known.items()})
    owners = {feed.subject_of for feed in tables.feeds}
    for feed in owners_first(tables.feeds):
        values = sorted(person_rows.keys.get(feed.subject_of, ())) if feed.subject_of else values_for(feed, persons)
        person_rows.subjects[feed.name] = values
        logs = [log for log in tables.logs if log.of == feed.name]
        own, shared = set[str](), set[str]()
        tables_of_feed: list[Feed | ChangeLog] = [feed, *logs]
        for table in tables_of_feed:
            rows = _rows_of(lake, table, values)
            if rows is None:
                continue
            person_rows.rows[table.name] = len(rows)
            theirs, of_others = _texts(lake, table, rows, values)
            own, shared = own | theirs, shared | of_others
            if feed.name in owners:
                person_rows.keys.setdefault(feed.name, set()).update(rows[feed.keys[0]].to_pylist())
        person_rows.hints |= {text for text in own - shared if _is_words(text)}
        person_rows.texts |= {text for text in own - shared if not _is_words(text)}
    return person_rows


def erase_rows(lake: Lake, tables: Registry, person_rows: PersonRows, hour: str | None) -> Iterator[tuple[str, int]]:
    """Delete or blank the rows of persons as of ``hour``, in one commit per table; yield table and number of rows.

    Tables without such rows are left alone, so this can be repeated.
    """
    for table in _every(tables):
        feed = table.fed_by if isinstance(table, ChangeLog) else table
        rows = _rows_of(lake, table, person_rows.subjects.get(feed.name, []))
        if rows is None or not len(rows):
            continue
        delta = lake.opened(lake.path(table.name))
        require_writable_here(table.name, lake.path(table.name), delta)
        require_ours(lake, table.name, delta.version(), has_hours=isinstance(table, Feed))
        counts = {"hour": hour, "inserted": 0, "updated": 0, "deleted": len(rows)}
        commit = properties(bronze_metadata(table.keys, "erase", counts), upon=delta)
        new_rows = rows.slice(0, 0) if feed.erase == DELETE else _blanked(rows, feed)
        state = state_of(delta)
        # The rows must leave the data files too, so none is only marked by a deletion vector.
        layout = FileLayout(lake.folder(table.name), max(1 << 20, state.bytes // max(1, state.files)))
        replace_keys(delta, new_rows, rows.select([*table.keys]), commit, layout)
        yield table.name, len(rows)


def require_erasable_now(lake: Lake, tables: Registry) -> None:
    """Raise ChangedByOthers for a table of Bronze from which nothing can be erased before a person looks at it."""
    for table in _every(tables):
        feed = table.fed_by if isinstance(table, ChangeLog) else table
        delta = lake.open(lake.path(table.name)) if feed.subject else None
        if delta is not None:
            require_ours(lake, table.name, delta.version(), has_hours=isinstance(table, Feed))


def _every(tables: Registry) -> list[Feed | ChangeLog]:
    return [*tables.feeds, *tables.logs]


def _rows_of(lake: Lake, table: Feed | ChangeLog, values: Sequence[Any]) -> "pa.Table | None":
    """Return the rows of a table with one of ``values`` as subject; None without values or without such a column.

    From the change log of a feed whose rows are deleted, also return every other line with a key of these rows.
    """
    import pyarrow as pa

    delta = lake.open(lake.path(table.name)) if values else None
    if delta is None:
        return None
    feed = table.fed_by if isinstance(table, ChangeLog) else table
    columns = [column.name for column in pa.schema(delta.schema().to_arrow())]
    if feed.subject not in columns:  # declared since the table was written: the next hour adds it
        return None
    rows = rows_having(delta, lake.folder(table.name), feed.subject, [*values], columns)
    if isinstance(table, ChangeLog) and feed.erase == DELETE and len(rows) and feed.subject not in feed.keys:
        # A line that deletes a row may have only its key.
        keys = rows.select([*feed.keys]).group_by([*feed.keys]).aggregate([])
        rows = rows_with_keys(delta, lake.folder(table.name), with_plain_texts(keys), columns)
    return rows


def _blanked(rows: "pa.Table", feed: Feed) -> "pa.Table":
    import pyarrow as pa

    for name in feed.personal_columns:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), pa.nulls(len(rows), rows.schema.field(place).type))
    return rows


def _identifies(text: str) -> bool:
    """Return whether a text can identify somebody wherever it occurs.

    A word of letters alone cannot: Paris is in lines about others, and insert in every line.
    """
    return len(text.strip()) >= MIN_LENGTH and not text.strip().replace("_", "").isalpha()


def _is_words(text: str) -> bool:
    """Return whether a text has only letters and what stands between words, as names of persons and cities have."""
    return all(character.isalpha() or character in " -.'_" for character in text)


def _texts(lake: Lake, table: Feed | ChangeLog, rows: "pa.Table", values: Sequence[Any]) -> tuple[set[str], set[str]]:
    """Return the texts in personal columns of ``rows``, and those of them that rows of other persons have too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    feed = table.fed_by if isinstance(table, ChangeLog) else table
    own, shared = set[str](), set[str]()
    for name in feed.personal_columns:
        if not len(rows) or not pa.types.is_string(rows.schema.field(name).type):
            continue
        texts = sorted({t for t in rows[name].to_pylist() if t is not None and _identifies(t)})
        own |= {*texts}
        if texts and name != feed.subject:
            delta = lake.opened(lake.path(table.name))
            holders = rows_having(delta, lake.folder(table.name), name, texts, [name, feed.subject])
            wanted = pa.array(values, holders.schema.field(feed.subject).type)
            others = holders.filter(pc.invert(pc.is_in(holders[feed.subject], value_set=wanted)))
            shared |= {*others[name].to_pylist()}
    return own, shared
