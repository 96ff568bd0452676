"""Match the columns of a snapshot with the declared ones, and cast their values to the declared types.

Narrower types are accepted, letter case is ignored, and a nullable column may be missing; a lossy conversion is
refused.
"""

from collections.abc import Mapping

import pyarrow as pa

from medallion.errors import MedallionError, one_line
from medallion.ingest.arrow_types import arrow_type, fits_into
from medallion.model.columns import Column
from medallion.model.table import Feed


def match_columns(feed: Feed, schema: pa.Schema, shown: str) -> Mapping[str, str | None]:
    """Find the declared columns in a schema: declared name -> name there, None for a missing column.

    Raises MedallionError for a required column that is missing, a column that occurs twice in different letter case,
    and a type whose values the declared type may not hold.
    """
    by_letters: dict[str, list[str]] = {}
    for name in schema.names:
        by_letters.setdefault(name.casefold(), []).append(name)
    given: dict[str, str | None] = {}
    for column in feed.columns:
        others = by_letters.get(column.name, [])
        own = column.name if column.name in others else next(iter(others), None)
        if own is None:
            if column.required:
                raise MedallionError(
                    f"{shown} lacks the column {column.name} {column.type}, which is NOT NULL: have it written, or"
                    f" declare {column.name} without NOT NULL"
                )
        elif column.name not in others and len(others) > 1:
            raise MedallionError(f"{shown} has {' and '.join(others)}: {feed.topic} declares {column.name}")
        elif not fits_into(schema.field(own).type, arrow_type(column)):
            kind = schema.field(own).type
            raise MedallionError(
                f"{shown} has {own} as {kind}, not {column.type}, which may not hold every value of it: have it written"
                f" as {column.type}, or declare a type that holds {kind}"
            )
        given[column.name] = own
    return given


def declared_schema(feed: Feed) -> pa.Schema:
    """Return the schema of the declared columns, all nullable."""
    return pa.schema([pa.field(column.name, arrow_type(column)) for column in feed.columns])


def _cast(column: Column, batch: pa.RecordBatch, given: str | None, shown: str) -> pa.Array:
    """Return a column of a batch in its declared type. Raises MedallionError for a value that would lose digits."""
    wanted = arrow_type(column)
    if given is None:
        return pa.nulls(len(batch), wanted)
    values = batch[given]
    try:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(values.type) and values.type.tz is None:
            values = values.cast(pa.timestamp("us")).cast(wanted)
        return values.cast(wanted)
    except pa.ArrowInvalid as error:
        raise MedallionError.quoting(
            f"{shown} has a value in {given} ({batch[given].type}) that {column.type} cannot hold: have it written as"
            f" {column.type}, or declare a wider type",
            f": {one_line(error, 120)}",
        ) from None


def declared_batch(feed: Feed, batch: pa.RecordBatch, given: Mapping[str, str | None], shown: str) -> pa.RecordBatch:
    """Return a batch with the declared columns. given: as ``match_columns`` returns it. Raises as ``_cast`` does."""
    values = [_cast(column, batch, given[column.name], shown) for column in feed.columns]
    return pa.RecordBatch.from_arrays(values, schema=declared_schema(feed))
