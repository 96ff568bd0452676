"""The class archive: which one fits, and that a driver without it is given no option for it."""

from pathlib import Path

from medallion.settings import Settings
from medallion.spark.class_archive import archive_options, archive_path
from medallion.spark.configuration import submit_conf

OPTIONS = "spark.driver.extraJavaOptions"


def test_archive_fits_one_java_and_one_list_of_jars(tmp_path: Path) -> None:
    old, new = tmp_path / "java17", tmp_path / "java21"
    for home, release in ((old, "17"), (new, "21")):
        home.mkdir()
        (home / "release").write_text(f'JAVA_VERSION="{release}"')
    (tmp_path / "delta-1.jar").touch()
    first = archive_path(str(tmp_path), old)
    assert archive_path(str(tmp_path), old) == first
    assert archive_path(str(tmp_path), new) != first
    (tmp_path / "delta-1.jar").rename(tmp_path / "delta-2.jar")
    assert archive_path(str(tmp_path), old) != first


def test_driver_uses_the_archive_when_it_exists_and_starts_without_it(tmp_path: Path) -> None:
    (tmp_path / "delta-1.jar").touch()
    settings = Settings(jars=str(tmp_path))
    assert archive_options(str(tmp_path)) == ""
    assert "SharedArchiveFile" not in submit_conf(settings, "local[*]")[OPTIONS]
    path = archive_path(str(tmp_path))
    path.touch()
    assert f"-XX:SharedArchiveFile={path} -Xshare:auto" in submit_conf(settings, "local[*]")[OPTIONS]


def test_delta_is_on_the_drivers_class_path_and_is_fetched_by_executors_alone(tmp_path: Path) -> None:
    jar = tmp_path / "delta-1.jar"
    jar.touch()
    local, cluster = (submit_conf(Settings(jars=str(tmp_path)), master) for master in ("local[2]", "spark://m:7077"))
    assert local["spark.driver.extraClassPath"] == cluster["spark.driver.extraClassPath"] == str(jar)
    assert "spark.jars" not in local
    assert cluster["spark.jars"] == str(jar)
