"""What an unfinished erasure still has to do: ``<lake>/ops/erasure/plan.json``, which its owner alone may read.

It is the one place that names persons in clear, because a line that is no record can be known by a text alone. It is
removed with the last step.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from medallion.errors import HourOutOfOrder, advice
from medallion.ingest.erased_subjects import Registered, write_private
from medallion.ingest.needles import Needles
from medallion.inspect.person_search import Person
from medallion.storage import fence, files
from medallion.storage.files import Place
from medallion.storage.lake import Lake


@dataclass(frozen=True)
class Plan:
    """An erasure under way.

    erasure_id: names its certificate. subjects: whom. texts: what is theirs alone. columns: that hold subjects. keys:
    by feed, of rows of theirs that others are about. rows: by table, how many were deleted or blanked.
    """

    erasure_id: str
    began_at: str
    subjects: tuple[str, ...]
    columns: tuple[str, ...]
    texts: tuple[str, ...] = ()
    keys: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def person(self) -> Person:
        """Whom to look for."""
        return Person(frozenset(self.subjects), frozenset(self.columns), Needles.of(self.texts))

    def with_found(self, texts: set[str], keys: Mapping[str, set[Any]]) -> "Plan":
        """The same, knowing more of what is theirs."""
        return replace(
            self,
            texts=tuple(sorted({*self.texts, *texts})),
            keys={name: tuple(sorted(known)) for name, known in keys.items()},
        )

    def with_rows(self, table: str, count: int) -> "Plan":
        """The same after so many rows of a table were deleted or blanked."""
        return replace(self, rows={**self.rows, table: self.rows.get(table, 0) + count})


def read_plan(lake: Lake) -> Plan | None:
    """The erasure under way; None without one. Raises DamagedFile for a record that is none."""

    def parse(content: dict[str, Any]) -> Plan:
        known = {field.name: content[field.name] for field in fields(Plan) if field.name in content}
        lists = {name: tuple(known[name]) for name in ("subjects", "columns", "texts") if name in known}
        return Plan(**known | lists | {"keys": {name: tuple(keys) for name, keys in known.get("keys", {}).items()}})

    return files.read_record(_place(lake), parse, "remove it, and erase the same persons again")


def require_no_erasure(lake: Lake) -> None:
    """Raise HourOutOfOrder while an erasure that was cut short is to be ended."""
    if (plan := read_plan(lake)) is not None:
        raise HourOutOfOrder(f"hours must wait: erasure {plan.erasure_id} was cut short: {advice.end_erasure()}")


def write_plan(lake: Lake, plan: Plan) -> None:
    """Record the erasure, whole or not at all: the next one ends it first."""
    fence.require()
    write_private(_place(lake), files.json_text(asdict(plan)))


def end_plan(lake: Lake) -> None:
    """Remove the record: nothing is left to do."""
    fence.require()
    _place(lake).unlink(missing_ok=True)


def _place(lake: Lake) -> Place:
    return Registered(lake).folder / "plan.json"
