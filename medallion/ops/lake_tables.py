"""Which tables a lake has: recorded in ``<lake>/ops/tables.json`` at load, whatever the settings of a shell are."""

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
    """The content of ``ops/tables.json``.

    extras: whether the lake has the tables that are declared extra. dropped: tables that a person dropped, so that a
    release may lack them. project: the name of the lake's project; empty in a lake from before that was recorded.
    """

    extras: bool = False
    dropped: tuple[str, ...] = ()
    project: str = ""


def read_record(lake: Lake) -> TableRecord | None:
    """Read the record of a lake; None if the lake is not loaded, or was loaded before records were kept.

    Raises DamagedFile if the file cannot be parsed.
    """
    try:
        return files.read_record(
            _place(lake),
            lambda content: TableRecord(
                bool(content["extras"]), tuple(content["dropped"]), str(content.get("project", ""))
            ),
            "",
        )
    except DamagedFile:
        raise DamagedFile(
            f"{_place(lake)} is damaged: restore it, or remove it to take the tables of the newest release"
        ) from None


def write_record(lake: Lake, record: TableRecord) -> None:
    """Record atomically which tables ``lake`` has."""
    files.write_json(_place(lake), asdict(record))


def infer_record(lake: Lake) -> TableRecord | None:
    """Derive the record of a lake from before records were kept from its newest release; None if it has none."""
    release = releases.latest(lake)
    return None if release is None else TableRecord(extras=not extra_tables().isdisjoint(release.versions))


def tables_of(lake: Lake, default_extras: bool | None = None) -> Registry:
    """Return the tables that ``lake`` has, whatever the settings of this process are.

    default_extras: whether a lake that has not been loaded yet has the extra tables. Raises UsageError for a lake of
    another project.
    """
    return tables_in(read_record(lake) or infer_record(lake), default_extras)


def tables_in(record: TableRecord | None, default_extras: bool | None) -> Registry:
    """Return the tables of a lake with that record; without a record, ``default_extras`` decides.

    Raises as ``tables_of`` does, and BadDeclaration if the project has no table.
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
    """Return the tables that the DAG shows. It is parsed often, so no request is sent over the network.

    They are those in the record of a lake on a disk. For a lake in a bucket or without a record, MEDALLION_EXTRAS
    decides.
    """
    record = None if files.in_bucket(settings.lake) else read_record(Lake.of(settings))
    return tables_in(record, settings.extras)


def disagreement(settings: Settings, record: TableRecord | None) -> str | None:
    """Return a warning if MEDALLION_EXTRAS of this process differs from what the lake has; None if they agree."""
    if record is None or settings.extras in (None, record.extras):
        return None
    has, command = ("has", "--drop") if record.extras else ("does not have", "--add")
    return (
        f"MEDALLION_EXTRAS={str(settings.extras).lower()} is ignored: it is read at medallion load only, and lake"
        f" {settings.lake} {has} the extra tables; medallion tables {command} {EXTRAS} changes that"
    )


def extra_tables() -> frozenset[str]:
    """Return the names of all tables that are declared extra."""
    project = find_project()
    return frozenset(project.registry(extras=True).tables) - frozenset(project.registry().tables)


def dropped_logs(lake: Lake) -> tuple[ChangeLog, ...]:
    """Return the change logs that a person dropped from the lake: their files stay, and they may be added again."""
    dropped = (read_record(lake) or TableRecord()).dropped
    return tuple(log for log in find_project().registry(extras=True).logs if log.name in dropped) if dropped else ()


def missing_tables(lake: Lake, names: Iterable[str]) -> list[str]:
    """Return the tables that the newest release has and ``names`` lacks, although nobody dropped them."""
    release = releases.latest(lake)
    dropped = (read_record(lake) or TableRecord()).dropped
    return sorted(set(release.versions if release else ()) - set(names) - set(dropped))


def require_no_missing_table(lake: Lake, names: Iterable[str], so: str) -> None:
    """Raise UsageError if a release of the tables ``names`` would lack one that nobody dropped. so: what follows."""
    if missing := missing_tables(lake, names):
        them = "it" if len(missing) == 1 else "them"
        drop = " and ".join(f"medallion tables --drop {name}" for name in missing)
        raise UsageError(
            f"{', '.join(missing)} would drop out of the release: {so}; declare {them} again, or run {drop}"
        )


def add_extras(lake: Lake) -> tuple[str, ...]:
    """Record that ``lake`` has the extra tables, which the next hour builds; return their names.

    Raises UsageError if the lake has them already, or is not loaded.
    """
    record, extras = _known_record(lake), extra_tables()
    if record.extras:
        raise UsageError(f"lake {lake.root} has the extra tables already")
    write_record(lake, replace(record, extras=True, dropped=tuple(t for t in record.dropped if t not in extras)))
    return tuple(sorted(extras))


def drop_tables(lake: Lake, name: str) -> tuple[str, ...]:
    """Record that the next release lacks ``name``, a table or EXTRAS for all extra tables; return the dropped tables.

    Their files stay, and earlier releases still name them. Raises as ``require_droppable`` does.
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

    Raises UsageError for a table that is still declared, or that the newest release does not have.
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
