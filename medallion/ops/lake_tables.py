"""Which tables a lake has: recorded in ``<lake>/ops/tables.json`` at load, so that no shell's settings change them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from medallion.errors import BadDeclaration, DamagedFile, UsageError
from medallion.model.registry import Registry
from medallion.model.table import ChangeLog
from medallion.ops import releases
from medallion.project import find_project
from medallion.settings import Settings
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.lake import Lake

EXTRAS = "extras"  # the group of tables that are declared with extra=True


@dataclass(frozen=True)
class TableRecord:
    """What ``ops/tables.json`` holds.

    extras: whether the lake has the tables that are declared extra. dropped: tables that a person dropped; a release
    may come without them. project: whose it is; empty in a lake from before that was recorded.
    """

    extras: bool = False
    dropped: tuple[str, ...] = ()
    project: str = ""


def read_record(lake: Lake) -> TableRecord | None:
    """The record of a lake; None where there is none: it is not loaded, or was loaded before records were kept.

    Raises DamagedFile when the file is no such record.
    """
    try:
        return files.read_record(
            _place(lake),
            lambda found: TableRecord(bool(found["extras"]), tuple(found["dropped"]), str(found.get("project", ""))),
            "",
        )
    except DamagedFile:
        raise DamagedFile(
            f"{_place(lake)} is damaged: restore it, or remove it to take the tables of the newest release"
        ) from None


def write_record(lake: Lake, record: TableRecord) -> None:
    """Record which tables ``lake`` has, whole or not at all."""
    files.write_json(_place(lake), asdict(record))


def infer_record(lake: Lake) -> TableRecord | None:
    """The record of a lake that was loaded before records were kept, from its newest release; None without any."""
    release = releases.latest(lake)
    return None if release is None else TableRecord(extras=not extra_tables().isdisjoint(release.versions))


def tables_of(lake: Lake, default_extras: bool | None = None) -> Registry:
    """The tables that ``lake`` has, whatever the settings of this process are.

    default_extras: whether extras belong to a lake that has not been loaded yet. Raises UsageError for a lake of
    another project.
    """
    return tables_in(read_record(lake) or infer_record(lake), default_extras)


def tables_in(record: TableRecord | None, default_extras: bool | None) -> Registry:
    """The tables of a lake with that record; without one, ``default_extras`` decides.

    Raises as ``tables_of``, and BadDeclaration where there are none.
    """
    project = find_project()
    if record is not None and record.project not in {"", project.name}:
        raise UsageError(
            f"this lake belongs to project {record.project}, but {project.root} is project {project.name}: name"
            f" another lake in medallion.toml or MEDALLION_LAKE, or go into the folder of {record.project}"
        )
    tables = project.registry(extras=bool(default_extras) if record is None else record.extras)
    if not tables.tables:
        first = f"spark_jobs/{project.layers[0]}/"
        raise BadDeclaration(
            f"project {project.name} has no table: write a feed to {first}; medallion source infer helps"
        )
    return tables


def tables_at_parse_time(settings: Settings) -> Registry:
    """The tables that the DAG shows, read at every parse of its file, so without a request over the network.

    Those of the lake's record on a disk. For a lake in a bucket, and without a record, MEDALLION_EXTRAS decides.
    """
    record = None if files.in_bucket(settings.lake) else read_record(Lake.of(settings))
    return tables_in(record, settings.extras)


def disagreement(settings: Settings, record: TableRecord | None) -> str | None:
    """Return the warning for a shell whose MEDALLION_EXTRAS differs from what the lake has; None where they agree."""
    if record is None or settings.extras in (None, record.extras):
        return None
    has, command = ("has", "--drop") if record.extras else ("does not have", "--add")
    return (
        f"MEDALLION_EXTRAS={str(settings.extras).lower()} is ignored: it is read at medallion load only, and lake"
        f" {settings.lake} {has} the extra tables; medallion tables {command} {EXTRAS} changes that"
    )


def extra_tables() -> frozenset[str]:
    """The names of all tables that are declared extra."""
    project = find_project()
    return frozenset(project.registry(extras=True).tables) - frozenset(project.registry().tables)


def dropped_logs(lake: Lake) -> tuple[ChangeLog, ...]:
    """The change logs that the lake had and a person dropped: their files stay, and they may be added again."""
    dropped = (read_record(lake) or TableRecord()).dropped
    return tuple(log for log in find_project().registry(extras=True).logs if log.name in dropped) if dropped else ()


def missing_tables(lake: Lake, names: Iterable[str]) -> list[str]:
    """Tables that the newest release has and ``names`` lacks, though nobody dropped them."""
    release = releases.latest(lake)
    dropped = (read_record(lake) or TableRecord()).dropped
    return sorted(set(release.versions if release else ()) - set(names) - set(dropped))


def add_extras(lake: Lake) -> tuple[str, ...]:
    """Record that ``lake`` has the extra tables; their names. The next hour that is refreshed builds them."""
    record, extras = _known_record(lake), extra_tables()
    if record.extras:
        raise UsageError(f"lake {lake.root} has the extra tables already")
    write_record(lake, replace(record, extras=True, dropped=tuple(t for t in record.dropped if t not in extras)))
    return tuple(sorted(extras))


def drop_tables(lake: Lake, name: str) -> tuple[str, ...]:
    """Record that the next release comes without ``name``, a table or EXTRAS for all extra tables; their names.

    Files stay where they are, and releases of before keep naming them. Raises as ``require_droppable``.
    """
    record = require_droppable(lake, name)
    if name == EXTRAS:
        names = tuple(sorted(extra_tables()))
        write_record(lake, replace(record, extras=False, dropped=tuple(sorted({*record.dropped, *names}))))
        return names
    write_record(lake, replace(record, dropped=tuple(sorted({*record.dropped, name}))))
    return (name,)


def require_droppable(lake: Lake, name: str) -> TableRecord:
    """Return the record of ``lake``, from which ``name``, a table or EXTRAS, can be dropped.

    Raises UsageError for a table that is still declared, and for one that the newest release does not have.
    """
    record = _known_record(lake)
    if name == EXTRAS:
        if not record.extras:
            raise UsageError(f"lake {lake.root} does not have the extra tables")
        return record
    if name in find_project().registry(extras=record.extras).tables:
        raise UsageError(f"{name} is still declared in spark_jobs: remove its module, then drop it here")
    release = releases.require_release(lake, None)
    if name not in release.versions:
        raise UsageError(f"release {release.release_id} has no table {name[:80]!r}: nothing to drop")
    return record


def _known_record(lake: Lake) -> TableRecord:
    record = read_record(lake) or infer_record(lake)
    if record is None:
        raise UsageError(f"lake {lake.root} is not loaded: run medallion load first")
    return record


def _place(lake: Lake) -> Place:
    return lake.at(lake.ops("tables.json"))
