"""The plan of an unfinished erasure: ``<lake>/ops/erasure/plan.json``, which only its owner may read.

It is the only place that names persons in clear, because a line that is no record can be recognised only by a text. It
is removed in the last step.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from medallion.ingest.erase_rows import PersonRows
from medallion.ingest.erased_subjects import write_private
from medallion.ingest.needles import Needles
from medallion.ingest.unfinished_erasure import REMEDY, plan_place
from medallion.inspect.person import Person
from medallion.model.table import Feed
from medallion.storage import fence, files
from medallion.storage.lake import Lake


@dataclass(frozen=True)
class Plan:
    """An erasure under way.

    erasure_id: the name of its certificate. subjects: the persons. columns: the columns that hold subjects. texts:
    texts that identify only these persons. hints: texts of theirs that lines about others may have, too. keys: by feed
    to which the subject of another feed refers, the keys of their rows. rows: by table, how many rows were deleted or
    blanked. ended: tables whose history is to end, by name or path.
    """

    erasure_id: str
    began_at: str
    subjects: tuple[str, ...]
    columns: tuple[str, ...]
    texts: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    keys: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    ended: tuple[str, ...] = ()

    @cached_property
    def person(self) -> Person:
        """The persons to search for."""
        return Person(frozenset(self.subjects), frozenset(self.columns), Needles.of(self.texts), Needles.of(self.hints))

    def person_in_lines_of(self, feed: Feed) -> Person:
        """Return the persons to search for in lines of a feed, which may name somebody by a key of another feed."""
        return replace(self.person, owners=frozenset({feed.subject} if feed.subject_of else ()))

    def with_identifiers(self, rows: PersonRows) -> "Plan":
        """Return the plan with the texts, hints and keys of ``rows``, which are those of the persons."""
        return replace(
            self,
            texts=tuple(sorted({*self.texts, *rows.texts})),
            hints=tuple(sorted({*self.hints, *rows.hints})),
            keys={name: tuple(sorted(known)) for name, known in rows.keys.items()},
        )

    def with_rows(self, table: str, count: int) -> "Plan":
        """Return the plan after ``count`` more rows of a table were deleted or blanked."""
        return replace(self, rows={**self.rows, table: self.rows.get(table, 0) + count})


def read_plan(lake: Lake) -> Plan | None:
    """Read the plan of the erasure under way; None if there is none. Raises DamagedFile if it cannot be parsed."""

    def parse(content: dict[str, Any]) -> Plan:
        known = {field.name: content[field.name] for field in fields(Plan) if field.name in content}
        lists = {
            name: tuple(known[name]) for name in ("subjects", "columns", "texts", "hints", "ended") if name in known
        }
        return Plan(**known | lists | {"keys": {name: tuple(keys) for name, keys in known.get("keys", {}).items()}})

    return files.read_record(plan_place(lake), parse, REMEDY)


def write_plan(lake: Lake, plan: Plan) -> None:
    """Record the erasure atomically; if it is cut short, the next one finishes it first."""
    fence.require()
    write_private(plan_place(lake), files.json_text(asdict(plan)))


def end_plan(lake: Lake) -> None:
    """Remove the plan, because nothing is left to do."""
    fence.require()
    place = plan_place(lake)
    for part in files.glob(place.parent, f".{place.name}.*.part"):  # left by a process that was killed
        part.unlink(missing_ok=True)
    place.unlink(missing_ok=True)
