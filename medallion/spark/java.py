"""Find Java. It needs only the standard library, because set-up uses it before anything is installed."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from medallion.errors import MedallionError

OLDEST = 17
INSTALLED = Path("/usr/lib/jvm")


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the first Java that is new enough: JAVA_HOME, the one on PATH, or the oldest suitable in /usr/lib/jvm.

    Raises MedallionError, which says how to get one, if there is none.
    """
    for home in _candidates(environment):
        if (home / "bin" / "java").exists() and (version(home) or 0) >= OLDEST:
            return home
    raise MedallionError(
        f"Java {OLDEST} or newer is missing: apt-get install openjdk-{OLDEST}-jre-headless, or set JAVA_HOME to one"
    )


def version(home: Path) -> int | None:
    """Return the feature release of the Java at ``home`` from its ``release`` file; None if it has no such file."""
    try:
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) if match else None


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home)
    if java := shutil.which("java", path=environment.get("PATH")):
        yield Path(java).resolve().parents[1]
    yield from sorted(INSTALLED.glob("*"), key=lambda home: (version(home) or 0, home.name))
