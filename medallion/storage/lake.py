"""The lake, read without a JVM: paths of tables, and their state from the Delta logs."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from medallion.errors import MedallionError, UsageError
from medallion.hours import hour_from_number
from medallion.settings import Settings
from medallion.storage import files
from medallion.storage.change_feed import changes
from medallion.storage.deletion_vectors import count_deleted, deleted_positions, may_have_vectors, read_positions
from medallion.storage.files import Place
from medallion.storage.log_entries import LEDGER as LEDGER
from medallion.storage.log_repair import record_repair, repair_checkpoints
from medallion.storage.remembered import remembered
from medallion.storage.s3 import AWS, S3Access, S3Path
from medallion.storage.s3_errors import short_reason

if TYPE_CHECKING:
    from deltalake import DeltaTable

SET_ASIDE_STAMP = "%Y%m%dT%H%M%S%f"  # how the name of a folder that was set aside ends


@dataclass(frozen=True)
class TableState:
    """One table at one version: its rows, files and bytes.

    delta: the opened table, to read this version or write the next. actions: statistics of the data files in the log,
    by column, one value per file. commit: the identity of the commit at this version, if it was read.
    """

    version: int
    rows: int
    files: int
    bytes: int
    delta: "DeltaTable" = field(repr=False, compare=False)
    actions: Mapping[str, list[Any]] = field(repr=False, compare=False)
    commit: str | None = field(default=None, repr=False, compare=False)


def state_of(delta: "DeltaTable") -> TableState:
    """Return rows, files and bytes of an opened table, from the statistics in its log and its deletion vectors."""
    import pyarrow as pa

    actions = pa.table(delta.get_add_actions(flatten=True)).to_pydict()
    rows = sum(count or 0 for count in actions.get("num_records", ())) - count_deleted(deleted_positions(delta))
    return TableState(delta.version(), rows, len(actions["path"]), sum(actions["size_bytes"]), delta, actions)


def hour_in(delta: "DeltaTable") -> str | None:
    """Return the last hour applied to a Bronze table, by its log; None if it has only the snapshot."""
    number = delta.transaction_version(LEDGER)
    return hour_from_number(number) if number else None


def table_id(delta: "DeltaTable") -> str:
    """Return the Delta id of a table; a rebuilt table has another id, and its versions start again at 0."""
    return str(delta.metadata().id)


def is_complete(delta: "DeltaTable", access: S3Access) -> bool:
    """Check whether every data file of an opened table exists, and its deletion vectors can be read."""
    from deltalake.exceptions import DeltaError

    try:
        if may_have_vectors(delta):
            read_positions(delta)
    except (DeltaError, OSError):
        return False
    return files.all_there(data_files(delta, access))


def data_files(delta: "DeltaTable", access: S3Access) -> list[Place]:
    """Return the places of the data files of an opened table, whose URIs are percent-encoded."""
    return [files.at(unquote(uri), access=access) for uri in delta.file_uris()]


def open_table(folder: Place, version: int | None = None) -> "DeltaTable | None":
    """Open the Delta table in ``folder``; None if it does not exist. Damaged checkpoints are repaired if possible.

    Raises:
        MedallionError: Its log cannot be read. This does not prove damage: storage may fail for longer than the retries
        last.
    """
    from deltalake.exceptions import DeltaError

    try:
        return files.retry_while_failing(lambda: _open_once(folder, version))
    except (DeltaError, OSError) as error:
        if wrong := repair_checkpoints(folder):
            return _open_repaired(folder, version, wrong)
        of_storage = isinstance(folder, S3Path) or isinstance(error, OSError)
        why = short_reason(error) if of_storage else str(error).splitlines()[0]
        at = "" if version is None else f" at version {version}"
        if (denied := files.unreadable_part(folder)) is not None:
            why = f"this account has no permission to read {denied}"
        raise MedallionError(f"{folder} cannot be read{at}: {why}") from error


def _open_repaired(folder: Place, version: int | None, wrong: str) -> "DeltaTable | None":
    """Open a table from its log entries after a damaged checkpoint was removed, and write the checkpoint again."""
    from deltalake.exceptions import DeltaError

    newest = open_table(folder)
    if newest is not None:
        with suppress(DeltaError, OSError):  # the account has no write permission
            newest.create_checkpoint()
    record_repair(folder, wrong)
    return newest if version is None else open_table(folder, version)


def _open_once(folder: Place, version: int | None) -> "DeltaTable | None":
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    if not isinstance(folder, S3Path):
        try:
            (folder / "_delta_log").stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
    try:
        return DeltaTable(str(folder), version=version, storage_options=files.storage_options(folder))
    except TableNotFoundError:
        return None


@dataclass(frozen=True)
class Lake:
    """The lakehouse under ``root``. Paths follow from names; nothing is registered in a catalog.

    access: how to reach a bucket; not used for a lake on a disk. marks_from: the size in bytes from which tables are
    merged on read; None for never.
    """

    root: str
    access: S3Access = AWS
    marks_from: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> "Lake":
        """Return the lake that ``settings`` name."""
        return cls(settings.lake, S3Access.of(settings), settings.marks_from)

    def at(self, path: str, *names: str) -> Place:
        """Return the place of ``path`` on this lake's storage, and of ``names`` under it."""
        return files.at(path, *names, access=self.access)

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The options with which delta-rs accesses a table of this lake; None on a disk."""
        return files.storage_options(self.at(self.root))

    def path(self, table: str) -> str:
        """Return the folder of a table: silver/orders_enriched for silver_orders_enriched."""
        layer, _, name = table.partition("_")
        return f"{self.root}/{layer}/{name}"

    def folder(self, table: str, *names: str) -> Place:
        """Return the place of a table's folder, and of ``names`` in it."""
        return self.at(self.path(table), *names)

    def ops(self, name: str) -> str:
        """Return the path of the operational record or table called ``name``."""
        return f"{self.root}/ops/{name}"

    @property
    def event_log(self) -> str:
        """The path of the event log."""
        return self.ops("event_log")

    @property
    def releases(self) -> str:
        """The path of the table of releases."""
        return self.ops("releases")

    @property
    def aggregate_states(self) -> Place:
        """The folder of the aggregate state of all tables."""
        return self.at(self.ops("aggregate_states"))

    def aggregate_state_path(self, table: str, part: str) -> str:
        """Return the folder of the aggregate state of one part of a table's query."""
        return f"{self.aggregate_states}/{table}.{part}"

    def full_by_choice(self, table: str) -> Place:
        """The mark of a full recompute that was chosen, and has not ended yet; with its hour."""
        return self.at(self.ops("full_by_choice"), f"{table}.json")

    def quarantine(self, topic: str) -> str:
        """Return the path of the quarantine table of a feed."""
        return f"{self.root}/quarantine/{topic}"

    @cached_property
    def landing(self) -> Place:
        """The folder in which change files land before they are applied."""
        return self.at(self.root, "landing")

    @property
    def manifests(self) -> Place:
        """The folder of the manifests, which record the files of each hour that have landed."""
        return self.landing / "_hours"

    @property
    def decoded(self) -> Place:
        """The folder of decoded change files, which are kept until they are applied; one folder per hour."""
        return self.landing / "_decoded"

    @property
    def corrections(self) -> Place:
        """The folder of corrected lines, one folder per feed."""
        return self.landing / "_corrections"

    @cached_property
    def reports(self) -> Place:
        """The folder of validation reports."""
        return self.at(self.root, "reports", "validation")

    @cached_property
    def benchmark(self) -> Place:
        """The report of a benchmark, which is shown beside the validation reports."""
        return self.at(self.root, "reports", "benchmark", "report.html")

    def require_writable(self) -> None:
        """Create the root if it does not exist. Raises UsageError or MedallionError if it cannot be written."""
        root = self.at(self.root)
        if isinstance(root, S3Path):
            root.require_writable()
            return
        root = root.absolute()
        try:
            root.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=root):
                pass
        except OSError as error:
            raise UsageError(f"lake {root} cannot be written: {error.strerror}; set MEDALLION_LAKE elsewhere") from None

    def open(self, path: str, version: int | None = None) -> "DeltaTable | None":
        """Open the Delta table at ``path``; None if it does not exist. Raises as ``open_table`` does."""
        return open_table(self.at(path), version)

    def opened(self, path: str, version: int | None = None) -> "DeltaTable":
        """Open the Delta table at ``path``. Raises MedallionError if it does not exist or its log cannot be read."""
        delta = self.open(path, version)
        if delta is None:
            raise MedallionError(f"{path} does not exist")
        return delta

    def version(self, table: str) -> int | None:
        """Return the current version of ``table``; None if it has not been written."""

        def read() -> int | None:
            delta = self.open(self.path(table))
            return None if delta is None else delta.version()

        return remembered(self.folder(table), "version", read)

    def state(self, table: str, version: int | None = None) -> TableState | None:
        """Return rows, files and bytes of ``table`` from the statistics in its log; None if it has not been written."""
        delta = self.open(self.path(table), version)
        if delta is None:
            return None
        return state_of(delta)

    def is_whole(self, table: str, version: int) -> bool:
        """Check whether ``table`` can be read at ``version``: its log can be read, and every data file exists."""
        try:
            delta = self.open(self.path(table), version)
        except MedallionError:
            return False
        return delta is not None and is_complete(delta, self.access)

    def move_damaged_table(self, table: str) -> Place:
        """Move a table that is proven to be damaged to the folder of damaged tables, and return its new path.

        Releases that name it are read from there, until upkeep removes folders that no release names.
        """
        aside = self.at(self.ops("damaged"), f"{table}-{datetime.now(UTC):{SET_ASIDE_STAMP}}")
        files.move(self.folder(table), aside)
        return aside

    def last_commit(self, table: str) -> dict[str, Any]:
        """Return the newest commit of ``table``: version, operation, metrics, user metadata; empty without a table."""
        delta = self.open(self.path(table))
        history = delta.history(1) if delta is not None else []
        return dict(history[0]) if history else {}

    def same_rows(self, table: str, version: int | None, newest: int, commit: str | None = None) -> bool:
        """Check whether no commit after ``version`` up to ``newest`` changed a row.

        commit: the identity of the commit at ``version``, if recorded.
        """
        return version is not None and not changes(self.folder(table), version, newest, commit)

    def applied_hour(self, table: str) -> str | None:
        """Return the last hour applied to a Bronze table, by its log; None if it has none or does not exist."""
        delta = self.open(self.path(table))
        return None if delta is None else hour_in(delta)
