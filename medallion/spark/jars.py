"""The JARs that Spark needs for Delta tables and for a lake in a bucket: locked by checksum, fetched if missing.

It needs only the standard library, because set-up uses it before anything is installed.
"""

import hashlib
import os
import shlex
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from medallion.errors import MedallionError

LOCK, S3_LOCK = (Path(__file__).with_name(name) for name in ("jars.lock", "jars-s3.lock"))
Report = Callable[[str], None]


def spark_home() -> Path:
    """Return where Spark is installed; Spark's own scripts fail to find it if the path contains spaces."""
    return Path(sysconfig.get_path("purelib"), "pyspark")


def require_jars(folder: Path, lock: Path, spark: Path, java: Callable[[], Path], report: Report) -> list[Path]:
    """Return the JARs in ``folder``; fetch those of ``lock`` first if some are missing and the folder has no others.

    Args:
        folder: The folder of the JARs.
        lock: The lock file that lists them.
        spark: Where pyspark is installed, whose Ivy fetches them.
        java: Finds the Java that Ivy runs on.
        report: Receives a message when JARs are fetched, as that takes a while.

    Raises:
        MedallionError: The JARs cannot be fetched.
    """
    jar_names = {jar.name for jar in folder.glob("*.jar")}
    locked = {name for _, name, _ in locked_jars(lock)}
    if jar_names >= locked or jar_names - locked:  # other JARs may be there on purpose: the folder is not touched
        return sorted(folder.glob("*.jar"))
    try:
        fetch_jars(java(), lock, folder, spark, report)
    except OSError as error:
        raise MedallionError(
            f"{folder} cannot be filled with Delta's JARs: {error.strerror or error}; name another in MEDALLION_JARS"
        ) from None
    return sorted(folder.glob("*.jar"))


def fetch_jars(java: Path, lock: Path, folder: Path, spark: Path, report: Report) -> None:
    """Make ``folder`` hold exactly the JARs that ``lock`` lists. Raises MedallionError."""
    folder.mkdir(parents=True, exist_ok=True)
    locked = list(locked_jars(lock))
    for jar in folder.glob("*.jar"):
        if jar.name not in {name for _, name, _ in locked}:
            jar.unlink()
    missing = [
        (coordinates, name, checksum)
        for coordinates, name, checksum in locked
        if not (folder / name).exists() or digest(folder / name) != checksum
    ]
    if missing:
        first = missing[0][0]
        report(f"fetching {first}" + (f" and {len(missing) - 1} more" if missing[1:] else "") + ", once")
        _fetch(java, missing, folder, spark)


def locked_jars(lock: Path) -> Iterator[tuple[str, str, str]]:
    """Yield coordinates, file name and checksum of each line of ``lock``."""
    for line in lock.read_text().splitlines():
        if line and not line.startswith("#"):
            coordinates, sha256 = line.split(" sha256:")
            _, artifact, version = coordinates.split(":")
            yield coordinates, f"{artifact}-{version}.jar", sha256


def digest(*files: Path) -> str:
    """Return the SHA-256 of the contents of ``files``, one after the other."""
    sha256 = hashlib.sha256()
    for file in files:
        sha256.update(file.read_bytes())
    return sha256.hexdigest()


def _fetch(java: Path, jars: Sequence[tuple[str, str, str]], folder: Path, spark: Path) -> None:
    """Fetch JARs with the Ivy that Spark ships; each is moved to ``folder`` only if its checksum is right."""
    ivy = next(spark.glob("jars/ivy-*.jar"), None)
    if ivy is None:
        raise MedallionError(f"{spark} has no Ivy: install pyspark there again, and run again")
    settings = os.environ.get("MEDALLION_IVY_SETTINGS")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        Path(scratch, "ivy.xml").write_text(_ivy_module(coordinates for coordinates, _, _ in jars))
        _run(
            f"fetching {jars[0][0]}" + (" and others" if jars[1:] else ""),
            *(java / "bin" / "java", "-jar", ivy, "-cache", f"{scratch}/cache"),
            *(("-settings", os.path.abspath(settings)) if settings else ()),
            *("-ivy", "ivy.xml", "-types", "jar", "-retrieve", "[artifact]-[revision].[ext]"),
            cwd=scratch,
        )
        for coordinates, name, sha256 in jars:
            fetched = Path(scratch, name)
            if not fetched.exists():
                raise MedallionError(f"{coordinates} was not found: set MEDALLION_IVY_SETTINGS to a mirror that has it")
            if digest(fetched) != sha256:
                raise MedallionError(f"{name} has checksum {digest(fetched)}, the lock says {sha256}: refused")
            fetched.replace(folder / name)


def _run(what: str, *command: str | Path, cwd: str) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        error = MedallionError(f"{what} failed: mend what it says below and run again. It was: {shlex.join(words)}")
        for line in (done.stdout or "").splitlines()[-10:]:
            error.add_note(line)
        raise error


def _ivy_module(jars: Iterable[str]) -> str:
    """Return the Ivy module that requests these JARs without their dependencies."""
    form = '<dependency org="{}" name="{}" rev="{}" conf="default->master" transitive="false"/>'
    wanted = "\n".join(form.format(*coordinates.split(":")) for coordinates in jars)
    return f"""<ivy-module version="2.0">
<info organisation="medallion" module="jars"/>
<configurations><conf name="default"/></configurations>
<dependencies>
{wanted}
</dependencies>
</ivy-module>
"""
