"""What a feed declares about persons: whom a row is about, which columns are personal, and the effect of an erasure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from medallion.errors import MedallionError

if TYPE_CHECKING:
    from medallion.model.table import Feed, Node

_SUBJECT_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT", "STRING")


def require_erasable(where: str, feed: "Feed", by_name: "Mapping[str, Node]") -> None:
    """Raise MedallionError, which names the module, if a person could not be erased from a feed as declared.

    by_name: every table by name; the columns of feeds must be valid.
    """
    from medallion.model.table import BLANK, DELETE

    if not feed.subject:
        if feed.personal or feed.subject_of or feed.erase != DELETE:
            raise MedallionError(f"{where} declares what is personal and no subject: name the column of the person")
        return
    if feed.erase not in (DELETE, BLANK):
        raise MedallionError(f"{where} declares erase={feed.erase!r}: it is {DELETE!r} or {BLANK!r}")
    columns = {column.name: column for column in feed.columns}
    if unknown := [name for name in (feed.subject, *feed.personal) if name not in columns]:
        raise MedallionError(f"{where} declares {unknown[0]} as personal, which is no column of its schema")
    if (kind := columns[feed.subject].type) not in _SUBJECT_TYPES:
        raise MedallionError(
            f"{where} declares its subject {feed.subject} as {kind}: a person is named by a whole number or a STRING"
        )
    if feed.subject_of:
        _require_owner(where, feed, by_name)
    if feed.erase == BLANK:
        fixed = [name for name in feed.personal_columns if columns[name].required or name in feed.keys]
        if fixed:
            raise MedallionError(
                f"{where} blanks {fixed[0]}, which must have a value: declare it without NOT NULL, or erase={DELETE!r}"
            )
        if not feed.personal_columns:
            raise MedallionError(f"{where} blanks no column: name the personal ones, or erase={DELETE!r}")


def _require_owner(where: str, feed: "Feed", by_name: "Mapping[str, Node]") -> None:
    """Raise MedallionError unless ``subject_of`` is a feed with a subject and a single key, without a cycle."""
    from medallion.model.table import Feed

    owner, passed = by_name.get(feed.subject_of), {feed.name}
    if not isinstance(owner, Feed) or not owner.subject:
        raise MedallionError(f"{where} declares subject_of={feed.subject_of!r}, which is no feed with a subject")
    if len(owner.keys) != 1:
        raise MedallionError(f"{where} declares subject_of={feed.subject_of!r}, whose key is several columns")
    while isinstance(owner, Feed) and owner.subject_of:
        if owner.name in passed:
            raise MedallionError(f"{where} declares a subject that leads back to itself by {owner.name}")
        passed.add(owner.name)
        owner = by_name.get(owner.subject_of)
