"""Which Java is taken."""

from pathlib import Path

import pytest

from medallion.errors import MedallionError
from medallion.spark import java


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for /usr/lib/jvm."""
    folder = tmp_path / "jvm"
    folder.mkdir()
    monkeypatch.setattr(java, "INSTALLED", folder)
    return folder


def make_java(home: Path, version: str | None) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_comes_first(tmp_path: Path, installed: Path) -> None:
    make_java(installed / "java-17", "17.0.9")
    chosen = make_java(tmp_path / "mine", "21.0.1")
    assert java.java_home({"JAVA_HOME": str(chosen)}) == chosen


def test_then_the_java_on_the_path_wherever_its_link_leads(tmp_path: Path, installed: Path) -> None:
    make_java(installed / "java-17", "17.0.9")
    real = make_java(tmp_path / "real", "21.0.1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(real / "bin" / "java")
    assert java.java_home({"PATH": str(tmp_path / "links")}) == real


@pytest.mark.parametrize("version", ["11.0.20", "1.8.0_392", None])
def test_one_that_is_too_old_or_unknown_is_passed_over(tmp_path: Path, installed: Path, version: str | None) -> None:
    old = make_java(tmp_path / "old", version)
    new = make_java(installed / "java-17", "17.0.9")
    assert java.java_home({"JAVA_HOME": str(old), "PATH": str(old / "bin")}) == new


def test_of_several_installed_the_oldest_that_does(installed: Path) -> None:
    for version in ("8", "21", "17", "25"):
        make_java(installed / f"java-{version}", f"{version}.0.1" if version != "8" else "1.8.0")
    assert java.java_home({"PATH": ""}) == installed / "java-17"


def test_none_at_all_is_an_error_that_says_how_to_get_one() -> None:
    with pytest.raises(MedallionError, match="Java 17 or newer is missing: apt-get install openjdk-17-jre-headless"):
        java.java_home({"PATH": ""})
