"""Settings: read from the environment once, when a process starts, then passed on as a frozen object."""

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from medallion.errors import UsageError

PACKAGE = Path(__file__).resolve().parent
PREFIX = "MEDALLION_"
FELDERA_REQUEST_BYTES = 8_000_000  # the service sets no limit; proxies in front of it do, often 1 MB
_UNDECODED = re.compile("[\ud800-\udfff]")  # bytes that Python could not decode in the shell's encoding
_UNITS = {"k": 1 << 10, "": 1 << 20, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

# Defaults of commands and of the DAGs that run them.
KEEP_HOURS = 24  # old versions of tables, and the releases that name them
KEEP_DAYS = 90  # events, validation reports and landed change files
MAX_KEEP_DAYS = 36_500
MAX_KEEP_HOURS = MAX_KEEP_DAYS * 24
STALE_HOURS = 2.0  # since the end of a table's last hour: hours arrive hourly and may be one hour late


def bytes_of(memory: str) -> int:
    """Parse an amount of memory in Spark's notation, such as ``512m`` or ``4g``, to bytes. Raises ValueError."""
    match = re.fullmatch(r"([1-9]\d{0,9})([kmgt]?)b?", memory.lower())
    if match is None:
        raise ValueError("give a number and a unit, such as 4g")
    return int(match[1]) * _UNITS[match[2]]


def _check_memory(text: str) -> str:
    if bytes_of(text) < 512 << 20:
        raise ValueError("give 512m or more")
    return text


def _check_size(text: str) -> str:
    if text != "off":
        bytes_of(text)
    return text


def _absolute_root(scheme: str) -> AfterValidator:
    def parse(text: str) -> str:
        if "://" in text and not text.startswith(f"{scheme}://"):
            raise ValueError(f"give a path or a {scheme}:// URI")
        root = text.rstrip("/") if "://" in text else os.path.abspath(os.path.expanduser(text))
        if special := set(root) & set("%#[]{}*?\\"):
            raise ValueError(f"{root} contains {min(special)!r}, which Delta readers treat as a pattern or an escape")
        return root

    return AfterValidator(parse)


def _check_connect(text: str) -> str:
    # Spark sends its token unencrypted only to localhost, and a writer that takes over must be able to stop the server.
    if not re.fullmatch(r"sc://localhost:[1-9]\d{0,4}", text):
        raise ValueError(
            "give sc://localhost: and a port, such as sc://localhost:15002: Spark sends its token to no other name"
        )
    return text


def _check_host(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})", text):
        raise ValueError("give the name or address of this machine")
    return text


Memory = Annotated[str, AfterValidator(_check_memory)]
Count = Annotated[int, Field(ge=1, lt=1_000_000)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Level = Annotated[Literal["error", "warn", "info", "debug"], BeforeValidator(str.lower)]


def _default_jars() -> str:
    """Return the JAR folder: in a checkout beside the package, where set-up fills it, else in the user's cache."""
    if (PACKAGE.parent / "pyproject.toml").is_file():
        return str(PACKAGE.parent / ".jars")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "medallion").expanduser()
    lock = (PACKAGE / "spark" / "jars.lock").read_bytes()  # each set of locked JARs has its own folder
    return str(cache / f"jars-{sha256(lock).hexdigest()[:12]}")


class Settings(BaseSettings):
    """Where the lake and the source are, and how this installation runs.

    Each field has an environment variable ``MEDALLION_<FIELD>``, which only ``from_environment`` reads.
    """

    model_config = SettingsConfigDict(frozen=True, env_prefix=PREFIX)

    lake: Annotated[str, _absolute_root("s3a")] = Field(
        default="lake", description="Root of the lake, a path or `s3a://` URI"
    )
    source: Annotated[str, _absolute_root("s3")] = Field(
        default="data/source", description="Root of the source, a path or `s3://` URI"
    )
    spark_master: str = Field(default="local[*]", description="Spark outside Airflow; inside it is `spark_default`")
    spark_connect: Annotated[str, AfterValidator(_check_connect)] | None = Field(
        default=None,
        description="Warm Spark to attach to, `sc://localhost:15002`; without it each Spark step starts its own",
    )
    spark_log: Level = Field(default="warn", description="Log level of Spark: `error`, `warn`, `info` or `debug`")
    driver_memory: Memory = Field(default="4g", description="Heap of a driver")
    driver_host: Annotated[str, AfterValidator(_check_host)] | None = Field(
        default=None, description="Name under which the executors of a cluster reach the driver"
    )
    executor_memory: Memory = Field(default="2g", description="Heap of an executor, on a cluster")
    executor_cores: Count | None = Field(default=None, description="Cores of an executor; without it all of a worker")
    max_cores: Count | None = Field(
        default=None, description="Cores that one run may take; without it all of the cluster"
    )
    jars: str = Field(default=_default_jars(), description="Folder of Delta's JARs; in `s3/` those for a bucket")
    s3_endpoint: str | None = Field(default=None, description="S3 server of the source and the lake; without it AWS")
    s3_region: str | None = Field(default=None, description="Region of the buckets")
    s3_anonymous: bool = Field(default=False, description="Whether the source is read without credentials")
    s3_timeout: Seconds = Field(
        default=60.0, description="Seconds without a byte until a connection is closed and retried"
    )
    max_bad_lines: Share = Field(
        default=0.01,
        description="Share of bad lines in a file above which the hour is refused; a single one refuses it at 0, or"
        " where no line fits",
    )
    merge_on_read: Annotated[str, BeforeValidator(str.lower), AfterValidator(_check_size)] = Field(
        default="8m",
        description="Size, as `8m`, from which changed rows of a table are marked by deletion vectors; `off`: never",
    )
    spark_checks_from: Annotated[str, BeforeValidator(str.lower), AfterValidator(_check_size)] = Field(
        default="64g",
        description="Size, as `64g`, from which Spark checks a table that must be read whole; `off`: never",
    )
    lock_wait: Seconds = Field(default=600.0, description="Seconds to wait for another writer of the lake")
    source_wait: Seconds = Field(
        default=2700.0, description="Seconds that a scheduled run waits for an hour at the source"
    )
    catch_up_hours: Count = Field(default=72, description="Hours before its own that a scheduled run catches up")
    whole_check_hours: Seconds = Field(
        default=24.0,
        description="Hours after which an incremental hour checks whole tables again, not changed rows; `0`: always",
    )
    feldera_key: str | None = Field(default=None, description="API key of a Feldera that takes part in the benchmark")
    feldera_request_bytes: Annotated[int, Field(ge=1000)] = Field(
        default=FELDERA_REQUEST_BYTES, description="Largest request to it: 900000 where a proxy allows 1 MB"
    )
    currency: Annotated[str, Field(pattern=r"^[A-Za-z$€£¥]{1,8}$")] = Field(
        default="USD", description="Currency of amounts and of the price of a core-hour, as pages write it"
    )
    extras: bool | None = Field(
        default=None,
        description="Whether `medallion load` gives a lake the extra tables; `medallion airflow up` sets `true`",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 (pydantic passes it)
        init_settings: PydanticBaseSettingsSource,
        *_: Any,
        **__: Any,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values only from the caller; ``from_environment`` is the way to read the environment."""
        return (init_settings,)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, defaults: Mapping[str, str] | None = None
    ) -> "Settings":
        """Return the settings from ``environment``, falling back to ``defaults`` by field.

        Raises:
            UsageError: A value cannot be used; the message names the variable.
        """
        source = EnvSettingsSource(cls)
        texts = {f"{PREFIX}{name}".lower(): text for name, text in (defaults or {}).items()}
        texts |= {name.lower(): text.strip() for name, text in environment.items() if text.strip()}
        source.env_vars = {name: text for name, text in texts.items() if text}
        values = source()
        for name, text in values.items():
            if _UNDECODED.search(str(text)):
                raise UsageError(
                    f"{PREFIX}{name.upper()} has characters that the shell's encoding does not have: set LC_ALL=C.UTF-8"
                )
        try:
            return cls(**values)
        except ValidationError as error:
            raise UsageError(_describe(error, values)) from None

    @property
    def marks_from(self) -> int | None:
        """The table size in bytes from which changed rows are marked by deletion vectors; None for never."""
        return None if self.merge_on_read == "off" else bytes_of(self.merge_on_read)

    @property
    def spark_checks_bytes(self) -> int | None:
        """The table size in bytes from which Spark checks whole tables; None for never."""
        return None if self.spark_checks_from == "off" else bytes_of(self.spark_checks_from)

    def replace(self, **changes: Any) -> "Settings":
        """Return a copy of these settings with ``changes``, validated as usual."""
        return type(self)(**{**dict(self), **changes})


def _describe(error: ValidationError, values: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    field = str(first["loc"][0])
    reason = first.get("ctx", {}).get("error") or first["msg"]
    given = f"={str(values[field])!r}" if field in values else ", which is not set, has a default that"
    return f"{PREFIX}{field.upper()}{given} cannot be used: {reason}"
