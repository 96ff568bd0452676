"""What is installed is pinned by hash, and nothing that runs reports home."""

import re
from pathlib import Path

import pytest

from medallion.spark.jars import LOCK

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("lock", ["requirements.txt", "requirements-dev.txt", "scripts/bootstrap.txt"])
def test_every_package_has_one_version_and_its_hashes(lock: str) -> None:
    text = (ROOT / lock).read_text().replace("\\\n", " ")
    packages = [line for line in text.splitlines() if line and not line.lstrip().startswith(("#", "-"))]
    assert packages
    for package in packages:
        assert re.match(r"[a-zA-Z0-9._-]+(\[[^\]]*\])?==\S+ ", package), package
        assert "--hash=sha256:" in package, package


def test_every_jar_has_its_checksum() -> None:
    lines = [line.split() for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert all(any(re.fullmatch(r"sha256:[0-9a-f]{64}", word) for word in line) for line in lines if line)


def test_airflow_does_not_report_home(tmp_path: Path) -> None:
    from medallion.airflow.local import LocalAirflow

    assert LocalAirflow(tmp_path, 8080, ROOT).environment["AIRFLOW__USAGE_DATA_COLLECTION__ENABLED"] == "False"


def test_great_expectations_does_not_report_home(tmp_path: Path) -> None:
    from medallion.checks.data_docs import context

    assert context(tmp_path).config.analytics_enabled is False
