"""The state of a kept relation: bring it up to date with a change of the inputs, and compute the relation from it.

What is added to the state is what the touched rows give now, less what they gave at the input versions that its last
commit names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.model.kept_text import counters_of, group_names, inputs_of, relation_text, state_text, view_text
from medallion.model.methods import KeptPart
from medallion.model.refresh_method import SIDE
from medallion.refresh.inputs import changes_since
from medallion.refresh.keyed_inputs import Frames, KeyedInputs, session_of
from medallion.refresh.plan import FullRecompute, Target, require_followable
from medallion.refresh.state_log import MAX_GROUPS, StateLog
from medallion.refresh.touched import Trace, count_keys
from medallion.spark.collect import collect
from medallion.spark.delta_reads import read_changes, read_table
from medallion.storage import files, replaced_rows
from medallion.storage.change_feed import Changes
from medallion.storage.lake import TableState, data_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def changed_whole(parts: Iterable[KeptPart], changes: Mapping[str, Changes]) -> str | None:
    """Say which of the inputs that ``parts`` read whole has changed, as their state must then be rebuilt; else None."""
    changed = (name for part in parts for name in part.whole if changes[name])
    return next((f"{name} changed, of which every row may matter to every group" for name in changed), None)


@dataclass(frozen=True)
class KeptState:
    """The state of one kept relation of a table that is refreshed."""

    target: Target
    part: KeptPart

    @property
    def name(self) -> str:
        """The name of the relation in the rest of the query."""
        return self.part.name

    @cached_property
    def inputs(self) -> Mapping[str, TableState]:
        """The current state of the inputs that the relation is computed from."""
        return {name: self.target.inputs[name] for name in inputs_of(relation_text(self.part))}

    @property
    def log(self) -> StateLog:
        """The Delta log with the state."""
        return StateLog(self.target, self.name, self.inputs)

    def add_changes(self) -> TableState:
        """Bring the state up to date with the changes of its inputs, and return it.

        Raises FullRecompute if it must be rebuilt: it does not exist, or what changed is unknown or too much to follow.
        """
        log, lake = self.log, self.target.lake
        state, origin = log.former()
        changes = {
            name: changes_since(lake.folder(name), name, input_state, origin)
            for name, input_state in self.inputs.items()
        }
        if reason := changed_whole([self.part], changes):
            raise FullRecompute(reason)
        require_followable(changes, self.inputs)
        if origin.get("method_version") != replaced_rows.METHOD_VERSION:
            raise FullRecompute("it was written by another version of its refresh method")
        if any(changes.values()) and (sides := self._sides(changes, origin)) is not None:
            return log.append(state.delta, self._difference(*sides), ())
        return log.append(state.delta, None, ()) if any(changes.values()) or log.lags(origin) else state

    def rebuild(self) -> TableState:
        """Compute the state from all rows of its inputs."""
        target = self.target
        frames: Frames = {
            name: read_table(target.spark, target.lake.path(name), state, columns=target.proof.inputs[name])
            for name, state in self.inputs.items()
        }
        rows = target.spark.sql(state_text(self.part), **frames)
        filled = ", ".join(f"CAST(COALESCE({c}, 0) AS {_type(rows, c)}) AS {c}" for c in self._counters)
        columns = _column_list([*self._groups, filled])
        return self.log.write(target.spark.sql(f"SELECT {columns} FROM {{rows}}", rows=rows))

    def rows(self, state: TableState) -> "DataFrame":
        """Return the relation, as the rest of the query reads it."""
        log = read_table(self.target.spark, self.log.path, state)
        sums = ", ".join(f"CAST(COALESCE(SUM({c}), 0) AS {_type(log, c)}) AS {c}" for c in self._counters)
        by = f" GROUP BY {_column_list(self._groups)}" if self._groups else ""
        groups = log.sparkSession.sql(f"SELECT {_column_list([*self._groups, sums])} FROM {{log}}{by}", log=log)
        return log.sparkSession.sql(view_text(self.part), state=groups)

    @property
    def _groups(self) -> list[str]:
        return group_names(self.part)

    @property
    def _counters(self) -> list[str]:
        return [name for name, _ in counters_of(self.part)]

    def _sides(self, changes: Mapping[str, Changes], origin: Mapping[str, Any]) -> tuple[Frames, Frames] | None:
        """Return the touched rows of the inputs, before and after the changes; None if no row is touched."""
        target, by = self.target, self.part.by
        if by is None:
            ((name, change),) = changes.items()
            columns = target.proof.inputs[name]
            rows = read_changes(target.spark, target.lake.path(name), self.inputs[name].delta, change, columns)
            names = [f"`{column}`" for column, _, _ in columns]
            before, after = (rows.where(f"{SIDE} {sign} 0").selectExpr(*names) for sign in ("<", ">"))
            return {name: before}, {name: after}
        reads, needs = target.proof.reads_of(self.name), target.proof.needs_of(self.name)
        count = count_keys(target.run.tables, by.columns, self.inputs)
        trace = Trace(target.spark, target.lake, by, by.columns, reads, self.inputs, changes, needs, count)
        if not (values := trace.values()):
            return None
        former = {name: self._former(name, change, origin) for name, change in changes.items()}
        sides = [former, self.inputs]
        inputs = KeyedInputs(target, target.spark, by, by.columns, sides, values, self.name, trace.changed)
        if (frames := inputs.frames()) is None:
            return None
        older, newer = frames
        return older, newer

    def _former(self, name: str, change: Changes, origin: Mapping[str, Any]) -> TableState:
        """Return an input as the last commit of the state read it. Raises FullRecompute if files of it are gone."""
        from deltalake.exceptions import DeltaError

        now, lake, version = self.inputs[name], self.target.lake, origin["inputs"][name]
        if not change:
            return now
        try:
            former = lake.state(name, version)
        except (MedallionError, DeltaError, OSError):  # its log or a deletion vector cannot be read
            former = None
        if former is not None:
            # Files that are current still exist; upkeep may have deleted the others.
            current = {*map(str, data_files(now.delta, lake.access))}
            removed = [place for place in data_files(former.delta, lake.access) if str(place) not in current]
            if files.all_there(removed):
                return former
        raise FullRecompute(f"{name} cannot be read any more as it was at version {version}")

    def _difference(self, before: Frames, after: Frames) -> "pa.Table | None":
        """Return what the change adds to each counter, by group; None if it adds nothing."""
        spark, groups = session_of(after), self._groups
        older, newer = (spark.sql(state_text(self.part), **frames) for frames in (before, after))
        sides = " UNION ALL ".join(
            f"SELECT {_column_list([*groups, *(f'{sign}{c} AS {c}' for c in self._counters)])} FROM {{{name}}}"
            for name, sign in (("older", "-"), ("newer", ""))
        )
        sums = ", ".join(f"CAST(COALESCE(SUM({c}), 0) AS {_type(newer, c)}) AS {c}" for c in self._counters)
        by = f" GROUP BY {_column_list(groups)}" if groups else ""
        differs = " OR ".join(f"{c} <> 0" for c in self._counters)
        added = spark.sql(
            f"SELECT * FROM (SELECT {_column_list([*groups, sums])} FROM ({sides}){by}) WHERE {differs}",
            older=older,
            newer=newer,
        )
        if (data := collect(added, MAX_GROUPS)) is None:
            raise FullRecompute(f"more than {MAX_GROUPS:,} of its groups changed")
        return data if data.num_rows else None


def _column_list(names: Iterable[str]) -> str:
    return ", ".join(names)


def _type(rows: "DataFrame", column: str) -> str:
    return str(rows.schema[column].dataType.simpleString())
