"""Slowly changing dimensions of types 0, 1, 2 and 3, declared as a value: their queries over a change log.

Changes of a key are ordered by time: that of an inserted row is its ``sequence_by``, wherever it is in the files, so a
late change is placed in the past; that of a deletion, whose line has no time, is the end of its hour. A row that is
deleted and inserted again in the same file is an update. Of several changes of a key at the same time, the last one in
the files wins.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

from medallion.errors import MedallionError
from medallion.expect.vocabulary import Expectation
from medallion.model.table import Table

START, END = "__START_AT", "__END_AT"


def dimension(  # noqa: PLR0913 (the parts of a declaration, passed by name)
    log: str,
    *,
    key: str | tuple[str, ...],
    sequence_by: str,
    scd_type: Literal[0, 1, 2, 3],
    columns: tuple[str, ...],
    track: tuple[str, ...] = (),
    expect: tuple[Expectation, ...] = (),
    extra: bool = False,
) -> Table:
    """Declare a dimension over a change log: the ``columns`` of each ``key``, in one of four SCD types.

    Only type 2 has rows for a deleted key, and these have an __END_AT.

    Args:
        log: The Bronze log of the changes.
        key: The column or columns that identify a member.
        sequence_by: The column with the time of a change.
        scd_type: 0: the first values. 1: the current values. 2: a row for each period in which the ``track`` columns
            stayed the same, valid from __START_AT up to but excluding __END_AT, which is null while the period lasts;
            other columns have their last values of the period. 3: the current values and, for each column in ``track``,
            the previous value, previous_<column>, and the time of the last change, <column>_changed_at.
        columns: The columns of the dimension besides the key.
        track: The columns whose changes count; by default all ``columns``.
        expect: As for Table.
        extra: As for Table.

    Returns:
        A table with one row per key; in type 2, per key and __START_AT.

    Raises:
        MedallionError: A dimension of type 3 tracks no column, or a tracked column is not among ``columns``.
    """
    if strange := set(track) - set(columns):
        raise MedallionError(f"cannot track {strange.pop()}: it is not among the columns of this dimension")
    if scd_type == 3 and not track:
        raise MedallionError("a dimension of type 3 needs the columns whose former values it keeps: name them in track")
    keys = (key,) if isinstance(key, str) else key
    key_list = ", ".join(keys)
    query = _states(log, key_list, sequence_by, columns) + _SELECT[scd_type](key_list, columns, track or columns)
    grain = (*keys, START) if scd_type == 2 else keys
    return Table(keys=grain, query=query, expect=expect, extra=extra, descriptions=_descriptions(scd_type, track))


def _states(log: str, key: str, sequence_by: str, columns: tuple[str, ...]) -> str:
    """Return the WITH clause of ``states``: one row per key and time. is_gone: whether the newest one is a deletion."""
    column_list = ", ".join(columns)
    return f"""
        WITH lines AS (
            SELECT
                {key}, {column_list}, _deleted, _hour, _source_file, _line,
                CASE WHEN _deleted THEN _hour + INTERVAL '1' HOUR ELSE {sequence_by} END AS moment,
                LEAD(_line) OVER (PARTITION BY {key}, _hour ORDER BY _source_file, _line) AS next_line
            FROM {{{log}}}
        ),
        changes AS (
            SELECT
                {key}, {column_list}, _deleted, moment,
                ROW_NUMBER() OVER (
                    PARTITION BY {key}, moment ORDER BY _hour DESC NULLS LAST, _source_file DESC, _line DESC
                    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                ) AS newest
            FROM lines
            -- a deletion with a line of its key after it, in the same file, is the first half of an update
            WHERE NOT (_deleted AND next_line IS NOT NULL)
        ),
        states AS (
            SELECT
                {key}, {column_list}, _deleted, moment,
                FIRST_VALUE(_deleted) OVER {_whole(key, "moment DESC")} AS is_gone
            FROM changes
            WHERE newest = 1
        )"""  # noqa: S608 (of declared column names)


def _whole(key: str, order: str = "") -> str:
    ordered = f" ORDER BY {order}" if order else ""
    return f"(PARTITION BY {key}{ordered} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"


def _rank(key: str, order: str) -> str:
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    return f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {order} {frame})"


def _one_state(order: str, key: str, columns: tuple[str, ...], _: tuple[str, ...]) -> str:
    column_list = ", ".join(columns)
    return f""",
        ranked AS (
            SELECT {key}, {column_list}, is_gone, {_rank(key, order)} AS place
            FROM states
        )
        SELECT {key}, {column_list}
        FROM ranked
        WHERE place = 1 AND NOT is_gone
    """  # noqa: S608


def _as_always(key: str, columns: tuple[str, ...], track: tuple[str, ...]) -> str:
    column_list = ", ".join(columns)
    before = f"OVER (PARTITION BY {key} ORDER BY moment)"
    same = " AND ".join(f"{column} <=> LAG({column}) {before}" for column in track)
    return f""",
        marked AS (
            SELECT
                {key}, {column_list}, _deleted, moment,
                CASE
                    WHEN _deleted AND LAG(_deleted) {before} THEN 0
                    WHEN NOT _deleted AND NOT LAG(_deleted) {before} AND {same} THEN 0
                    ELSE 1
                END AS begins
            FROM states
        ),
        numbered AS (
            SELECT
                {key}, {column_list}, _deleted, moment,
                SUM(begins) OVER (
                    PARTITION BY {key} ORDER BY moment ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                ) AS version
            FROM marked
        ),
        versions AS (
            SELECT
                {key}, {column_list}, _deleted, version,
                MIN(moment) OVER {_whole(f"{key}, version")} AS started_at,
                {_rank(f"{key}, version", "moment DESC")} AS place
            FROM numbered
        ),
        spans AS (
            SELECT
                {key}, {column_list}, _deleted, started_at,
                LEAD(started_at) OVER (PARTITION BY {key} ORDER BY version) AS ended_at
            FROM versions
            WHERE place = 1
        )
        SELECT {key}, {column_list}, started_at AS {START}, ended_at AS {END}
        FROM spans
        WHERE NOT _deleted
    """  # noqa: S608


def _as_now_and_before(key: str, columns: tuple[str, ...], track: tuple[str, ...]) -> str:
    column_list = ", ".join(columns)
    now = (f"FIRST_VALUE({c}) OVER {_whole(key, 'moment DESC')} AS now_{c}" for c in track)
    other = (f"MAX(CASE WHEN NOT ({c} <=> now_{c}) THEN moment END) OVER {_whole(key)} AS other_{c}" for c in track)
    before = (
        f"""MAX(CASE WHEN moment = other_{c} THEN {c} END) OVER {_whole(key)} AS previous_{c},
                MIN(CASE WHEN moment > other_{c} THEN moment END) OVER {_whole(key)} AS {c}_changed_at"""
        for c in track
    )
    comma = ",\n                "
    return f""",
        compared AS (
            SELECT
                {key}, {column_list}, moment, is_gone,
                {comma.join(now)}
            FROM states
            WHERE NOT _deleted
        ),
        dated AS (
            SELECT
                {key}, {column_list}, moment, is_gone,
                {comma.join(other)}
            FROM compared
        ),
        ranked AS (
            SELECT
                {key}, {column_list}, is_gone,
                {comma.join(before)},
                {_rank(key, "moment DESC")} AS place
            FROM dated
        )
        SELECT {key}, {column_list}, {", ".join(f"previous_{c}, {c}_changed_at" for c in track)}
        FROM ranked
        WHERE place = 1 AND NOT is_gone
    """  # noqa: S608


def _descriptions(scd_type: int, track: tuple[str, ...]) -> dict[str, str]:
    """Return descriptions of the columns that a dimension has in addition to those of its log."""
    texts: dict[str, str] = {}
    if scd_type == 2:
        texts[START] = "When the version began to hold"
        texts[END] = "When the version ceased to hold, itself excluded; null while it holds"
    for column in track if scd_type == 3 else ():
        texts[f"previous_{column}"] = f"The value of {column} before its last change; null where it never changed"
        texts[f"{column}_changed_at"] = f"When {column} last changed"
    return texts


_SELECT: dict[int, Callable[[str, tuple[str, ...], tuple[str, ...]], str]] = {
    0: partial(_one_state, "_deleted, moment"),
    1: partial(_one_state, "moment DESC"),
    2: _as_always,
    3: _as_now_and_before,
}
