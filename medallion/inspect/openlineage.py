"""OpenLineage events: what each step did to each table, created from events of the event log, for a lineage service.

OpenLineage's own environment variables name the receiver; without them nothing is sent. If an event cannot be created
or sent, this is logged as a single warning: lineage never fails an hourly refresh.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from medallion.hours import ONE_HOUR, parse_hour
from medallion.model.registry import Registry
from medallion.model.table import ChangeLog, Feed, Node, Table
from medallion.ops.events import Event
from medallion.project import find_project
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent

PRODUCER = "https://openlineage.io/producers/medallion"
# Namespace, job and run, separated by slashes: the format in which Airflow's provider passes a task to its processes.
PARENT = "OPENLINEAGE_PARENT_ID"
_TARGETS = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
_WRITES = frozenset({"apply", "refresh"})
_REPORTED = _WRITES | {"check"}
_SEVERITIES = {"critical": "error", "drop": "error", "warning": "warn"}


_LOGGER = logging.getLogger(__name__)


@dataclass
class Pause:
    """A period in which nothing is sent, after the receiver did not answer."""

    seconds: float
    ends: float = 0.0

    def begin(self) -> None:
        """Start the pause now."""
        self.ends = time.monotonic() + self.seconds

    def lasts(self) -> bool:
        """Return whether the pause still lasts."""
        return time.monotonic() < self.ends


TIMEOUT_SECONDS = 1.0  # for the receiver to answer
PAUSE = Pause(seconds=300)  # of this process, after a failed attempt to send


def is_enabled(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether OpenLineage's own variables name a receiver and do not disable OpenLineage."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    return any(value and name.startswith(_TARGETS) for name, value in environment.items())


def send_lineage(lake: Lake, tables: Registry, source: str, events: Sequence[Event], parent: str | None = None) -> None:
    """Send the lineage of the ``events`` of one step, if a receiver is configured; stop at the first failure.

    parent: the task that runs the step, as OpenLineage names it; by default OPENLINEAGE_PARENT_ID names it.
    """
    steps = [event for event in events if event.event_type in _REPORTED and event.status != "skipped"]
    reportable = [event for event in steps if event.table_name in tables.tables]
    if not reportable or not is_enabled() or PAUSE.lasts():
        return
    try:
        from openlineage.client import OpenLineageClient

        client = OpenLineageClient()
        _limit_tries(client)
        lineage = Lineage(lake, tables, source, parent or os.environ.get(PARENT, ""))
        for event in reportable:
            _emit(client, lineage.run_events(event))
        client.close()
    except Exception as error:
        PAUSE.begin()
        reason = f"{type(error).__name__}: {error}"[:400]
        _LOGGER.warning("lineage was not sent, nor will it be for %g s: %s", PAUSE.seconds, reason)


def _limit_tries(client: "OpenLineageClient") -> None:
    """Limit sending to one short attempt unless timeout or retries are configured, as steps may be short tasks."""
    from openlineage.client.transport.http import HttpConfig, HttpTransport

    transport = client.transport
    if isinstance(transport, HttpTransport):
        default = HttpConfig(transport.url)
        if transport.timeout == default.timeout:
            transport.timeout = TIMEOUT_SECONDS
        if transport.config.retry == default.retry:
            transport.config.retry = {"total": 0}


def _emit(client: "OpenLineageClient", events: Iterator["RunEvent"]) -> None:
    for event in events:
        client.emit(event)


@dataclass(frozen=True)
class Lineage:
    """Creates lineage events. source: the root of the change files. parent: the task that runs the steps."""

    lake: Lake
    tables: Registry
    source: str
    parent: str = ""

    def run_events(self, event: Event) -> "Iterator[RunEvent]":
        """Yield the start event and the end event of one step of one table."""
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState

        table = self.tables[event.table_name or ""]
        job = Job(_namespace(), f"{table.name}.{event.event_type}", _job_facets(table, event.event_type))
        run = Run(event.event_id, self._run_facets(event))
        ended = RunState.FAIL if event.status == "failed" and "error" in event.details else RunState.COMPLETE
        is_write = event.event_type in _WRITES
        inputs = [*self._inputs(table)] if is_write else [self._checked_input(table, event)]
        outputs = [self._output(table, event)] if is_write and ended == RunState.COMPLETE else []
        for state, moment in ((RunState.START, event.started_at), (ended, event.event_timestamp)):
            yield RunEvent(
                eventType=state,
                eventTime=moment.isoformat(),
                run=run,
                job=job,
                producer=PRODUCER,
                inputs=inputs,
                outputs=[] if state == RunState.START else outputs,
            )

    def _run_facets(self, event: Event) -> dict[str, Any]:
        from openlineage.client.generated import error_message_run, nominal_time_run, parent_run, processing_engine_run

        facets: dict[str, Any] = {"parent": _parent(event, self.parent, parent_run)}
        facets["processing_engine"] = processing_engine_run.ProcessingEngineRunFacet(version="", name=event.engine)
        if event.hour is not None:
            start = parse_hour(event.hour)
            facets["nominalTime"] = nominal_time_run.NominalTimeRunFacet(
                start.isoformat(), (start + ONE_HOUR).isoformat()
            )
        if "error" in event.details:
            message = str(event.details.get("error_without_data", "its message is in the event log"))
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message, programmingLanguage="python")
        return facets

    def _inputs(self, table: Node) -> "Iterator[InputDataset]":
        from openlineage.client.event_v2 import InputDataset

        if isinstance(table, Feed):
            yield InputDataset(*_dataset_name(f"{self.source}/{table.delivery.layout.feed_folder(table.source_name)}"))
        else:
            for name in (table.of,) if isinstance(table, ChangeLog) else table.inputs:
                yield InputDataset(*_dataset_name(self.lake.path(name)), facets=self._facets(self.tables[name]))

    def _output(self, table: Node, event: Event) -> "OutputDataset":
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.generated import column_lineage_dataset, output_statistics_output_dataset

        facets = self._facets(table)
        if isinstance(table, Table | ChangeLog):
            facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(fields=self._columns[table.name])
        written = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(event.rows_out, event.bytes_out)
        place = _dataset_name(self.lake.path(table.name))
        return OutputDataset(*place, facets=facets, outputFacets={"outputStatistics": written})

    def _checked_input(self, table: Node, event: Event) -> "InputDataset":
        """Return the table that a check read, with the result of each expectation."""
        from openlineage.client.event_v2 import InputDataset
        from openlineage.client.generated import data_quality_assertions_dataset as quality
        from openlineage.client.generated import data_quality_metrics_input_dataset as metrics

        assertions = [
            quality.Assertion(
                assertion=meaning,
                success=result["status"] == "succeeded",
                severity=_SEVERITIES.get(result["severity"], result["severity"]),
                expected=meaning if "observed" in result else "0 failed records",
                actual=result.get("observed") or _failed_records(result["failed"]),
            )
            for meaning, result in event.details.get("expectations", {}).items()
        ]
        results: dict[str, Any] = {
            "dataQualityAssertions": quality.DataQualityAssertionsDatasetFacet(assertions),
            "dataQualityMetrics": metrics.DataQualityMetricsInputDatasetFacet(rowCount=event.rows_in, columnMetrics={}),
        }
        place = _dataset_name(self.lake.path(table.name))
        return InputDataset(*place, facets=self._facets(table, described=False), inputFacets=results)

    def _facets(self, table: Node, *, described: bool = True) -> dict[str, Any]:
        """Return the current facets of a table: columns with types, documentation, owner, tags, version, name.

        described: whether to include column descriptions, which needs the SQL of all tables; checks do without.
        """
        from openlineage.client.generated import dataset_version_dataset as version
        from openlineage.client.generated import documentation_dataset as documentation
        from openlineage.client.generated import ownership_dataset as ownership
        from openlineage.client.generated import schema_dataset as schema
        from openlineage.client.generated import symlinks_dataset as symlinks
        from openlineage.client.generated import tags_dataset as tags

        name = symlinks.Identifier(namespace=_namespace(), name=table.name, type="TABLE")
        facets: dict[str, Any] = {
            "documentation": documentation.DocumentationDatasetFacet(table.doc),
            "symlinks": symlinks.SymlinksDatasetFacet([name]),
        }
        if table.owner:
            facets["ownership"] = ownership.OwnershipDatasetFacet([ownership.Owner(table.owner)])
        if table.tags:
            facets["tags"] = tags.TagsDatasetFacet(
                [tags.TagsDatasetFacetFields(tag, "true", "MEDALLION") for tag in table.tags]
            )
        if (delta := self.lake.open(self.lake.path(table.name))) is not None:
            meanings = self._meanings(table) if described else {}
            fields = [
                schema.SchemaDatasetFacetFields(field.name, _type_name(field.type), meanings.get(field.name.lower()))
                for field in delta.schema().fields
            ]
            facets["schema"] = schema.SchemaDatasetFacet(fields)
            facets["version"] = version.DatasetVersionDatasetFacet(str(delta.version()))
        return facets

    def _meanings(self, table: Node) -> Mapping[str, str]:
        """Return the column descriptions of a table by lower-case name; for Bronze tables without reading any SQL."""
        if isinstance(table, Table):
            return self._described[table.name]
        return {name.lower(): text for name, text in table.descriptions.items()}

    @cached_property
    def _described(self) -> dict[str, dict[str, str]]:
        from medallion.inspect.column_descriptions import descriptions_by_table

        return descriptions_by_table(self.tables)

    @cached_property
    def _columns(self) -> dict[str, dict[str, Any]]:
        """The columns of other tables that values are computed from, by table and column."""
        from openlineage.client.generated.column_lineage_dataset import Fields, InputField

        from medallion.inspect.column_lineage import column_lineage

        columns: dict[str, dict[str, Any]] = {}
        for column, sources in column_lineage(self.tables).sources.items():
            fields = [
                InputField(*_dataset_name(self.lake.path(source.table)), source.column) for source in sorted(sources)
            ]
            columns.setdefault(column.table, {})[column.column] = Fields(inputFields=fields)
        return columns


def _failed_records(count: int | None) -> str | None:
    return None if count is None else f"{count} failed records"


def _type_name(kind: Any) -> str:
    return str(getattr(kind, "type", kind))


def _job_facets(table: Node, event_type: str) -> dict[str, Any]:
    from openlineage.client.generated import documentation_job, job_type_job, sql_job

    facets: dict[str, Any] = {
        "jobType": job_type_job.JobTypeJobFacet("BATCH", "MEDALLION", "CHECK" if event_type == "check" else "TABLE"),
        "documentation": documentation_job.DocumentationJobFacet(table.doc),
    }
    if isinstance(table, Table) and event_type in _WRITES:
        facets["sql"] = sql_job.SQLJobFacet(table.query, dialect="spark")
    return facets


def _parent(event: Event, given: str, parent_run: Any) -> Any:
    """Return the task ``given`` that runs this process, or else the run of the command."""
    namespace, job, run_id = _namespace(), "refresh", str(uuid5(NAMESPACE_URL, f"{PRODUCER}/{event.run_id}"))
    if given.count("/") >= 2:
        namespace, rest = given.split("/", 1)
        job, run_id = rest.rsplit("/", 1)
    return parent_run.ParentRunFacet(run=parent_run.Run(run_id), job=parent_run.Job(namespace, job))


def _namespace() -> str:
    """Return the job namespace, which separates tables of the same name in projects that share a receiver."""
    return os.environ.get("OPENLINEAGE_NAMESPACE") or find_project().name


def _dataset_name(path: str) -> tuple[str, str]:
    """Return namespace and name of a dataset by OpenLineage's naming rules, for a folder or a bucket."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return "file", path
    bucket, _, key = rest.partition("/")
    return f"{'s3' if scheme == 's3a' else scheme}://{bucket}", key
