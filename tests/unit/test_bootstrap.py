"""Set-up: what it installs is what the locks say, and what is there is left alone."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from medallion.errors import MedallionError
from medallion.spark import jars
from scripts import bootstrap

JAR = b"a jar"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose lock names one JAR, and an Ivy that brings it."""
    (tmp_path / "jars.lock").write_text(
        f"# Why.\norg.example:thing_2.13:1.0 sha256:{hashlib.sha256(JAR).hexdigest()}\n"
    )
    ivy = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "pyspark" / "jars" / "ivy-2.5.3.jar"
    ivy.parent.mkdir(parents=True)
    ivy.touch()
    return tmp_path


@pytest.fixture
def ivy_brings(monkeypatch: pytest.MonkeyPatch):
    def arrange(content: bytes | None) -> list[tuple[str, ...]]:
        asked = []

        def run(what: str, *command: str | Path, cwd: str) -> None:
            asked.append(tuple(map(str, command)))
            if content is not None:
                Path(cwd, "thing_2.13-1.0.jar").write_bytes(content)

        monkeypatch.setattr(jars, "_run", run)
        return asked

    return arrange


def fetch(project: Path) -> None:
    spark = project / ".venv" / "lib" / "python3.11" / "site-packages" / "pyspark"
    jars.fetch_jars(Path("/java"), project / "jars.lock", project / ".jars", spark, lambda _: None)


def fetched(project: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (project / ".jars").iterdir()}


def test_a_jar_is_fetched_once(project: Path, ivy_brings) -> None:
    asked = ivy_brings(JAR)
    fetch(project)
    fetch(project)
    assert fetched(project) == {"thing_2.13-1.0.jar": JAR}
    assert len(asked) == 1


def test_a_jar_with_another_checksum_is_refused(project: Path, ivy_brings) -> None:
    ivy_brings(b"something else")
    with pytest.raises(MedallionError, match=r"thing_2.13-1.0.jar has checksum .*: refused"):
        fetch(project)
    assert fetched(project) == {}


def test_damaged_jar_is_fetched_again_and_other_versions_are_removed(project: Path, ivy_brings) -> None:
    (project / ".jars").mkdir()
    (project / ".jars" / "thing_2.13-1.0.jar").write_bytes(b"a j")
    (project / ".jars" / "thing_2.13-0.9.jar").write_bytes(b"old")
    ivy_brings(JAR)
    fetch(project)
    assert fetched(project) == {"thing_2.13-1.0.jar": JAR}


def require(project: Path) -> list[str]:
    spark = project / ".venv" / "lib" / "python3.11" / "site-packages" / "pyspark"
    said: list[str] = []
    found = jars.require_jars(project / ".jars", project / "jars.lock", spark, lambda: Path("/java"), said.append)
    return [*(jar.name for jar in found), *said]


def test_a_session_fetches_what_is_missing_once_and_says_so(project: Path, ivy_brings) -> None:
    ivy_brings(JAR)
    assert require(project) == ["thing_2.13-1.0.jar", "fetching org.example:thing_2.13:1.0, once"]
    assert require(project) == ["thing_2.13-1.0.jar"]


def test_jars_of_ones_own_are_taken_as_they_are(project: Path, ivy_brings) -> None:
    asked = ivy_brings(JAR)
    (project / ".jars").mkdir()
    (project / ".jars" / "mine.jar").write_bytes(b"mine")
    assert require(project) == ["mine.jar"] and not asked


def test_a_jar_that_is_nowhere_is_an_error_that_names_it(project: Path, ivy_brings) -> None:
    ivy_brings(None)
    with pytest.raises(MedallionError, match="org.example:thing_2.13:1.0 was not found: set MEDALLION_IVY_SETTINGS"):
        fetch(project)


def test_a_mirror_is_a_file_of_ivy_settings(project: Path, ivy_brings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_IVY_SETTINGS", "/etc/ivy.xml")
    asked = ivy_brings(JAR)
    fetch(project)
    (command,) = asked
    assert command[command.index("-settings") + 1] == "/etc/ivy.xml"


def test_a_command_that_fails_is_named(project: Path) -> None:
    with pytest.raises(MedallionError, match="trying failed: see above, mend and run again. The command was: false"):
        bootstrap.run("trying", "false", cwd=project)


def test_without_a_python_that_is_new_enough_one_line_says_so(tmp_path: Path) -> None:
    for tool in ("bash", "dirname"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}")
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    script = Path(bootstrap.__file__).with_suffix("")
    done = subprocess.run([script], env=os.environ | {"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("setup: Python 3.11 to 3.14 is missing: install one")
    assert len(done.stderr.splitlines()) == 1
