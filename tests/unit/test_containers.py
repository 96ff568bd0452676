"""The containers' secrets and ports; running them is for tests/e2e/compose.py."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()


def make_env(file: Path) -> str:
    return subprocess.run([ROOT / "scripts" / "make_env", file], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def env(tmp_path: Path) -> Path:
    make_env(tmp_path / "env")
    return tmp_path / "env"


def secrets_in(env: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in env.read_text().splitlines() if not line.startswith("#"))


def test_secrets_are_drawn_for_their_owner_alone(env: Path, tmp_path: Path) -> None:
    assert env.stat().st_mode & 0o777 == 0o600
    drawn = secrets_in(env)
    make_env(tmp_path / "another")
    assert all(len(value) >= 20 for value in drawn.values())
    assert not set(drawn.values()) & set(secrets_in(tmp_path / "another").values())


def test_secrets_that_are_there_are_kept_and_not_shown(env: Path) -> None:
    before = env.read_text()
    said = make_env(env)
    assert env.read_text() == before
    assert not [value for value in secrets_in(env).values() if value in said]


def test_no_secret_has_a_default_and_each_one_is_drawn(env: Path) -> None:
    needed = set(re.findall(r"\$\{([A-Z0-9_]+):\?", COMPOSE))
    assert needed == set(secrets_in(env))
    used = set(re.findall(r"\$\{(\w*(?:PASSWORD|SECRET|KEY)\w*)[:}-]", COMPOSE))
    assert used == needed, "and none is used that may be empty"


def test_ports_are_published_on_loopback_alone() -> None:
    ports = re.findall(r"ports: \[(.*)\]", COMPOSE)
    assert len(ports) == 2
    assert all(port.startswith('"127.0.0.1:') for port in ports)
    assert "network_mode" not in COMPOSE


def test_secrets_enter_neither_version_control_nor_the_image() -> None:
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored and "!.env" not in ignored


def test_what_the_image_copies_is_let_in_and_there() -> None:
    """Otherwise the build fails, which only an engine would show."""
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    named = [Path(name) for names in copies for name in names.split() if name != "."]
    assert Path("medallion/spark/jars-s3.lock") in named
    assert {"medallion.toml", "refresh.lock", "demo", "spark_jobs", "dags", "plugins"} <= {*let_in}, "by `COPY . .`"
    for file in named:
        assert (ROOT / file).exists()
        assert any(path.match(pattern) for path in (file, *file.parents) for pattern in let_in), file


def test_set_up_of_the_image_starts_with_what_is_copied_before_it(tmp_path: Path) -> None:
    """Its layer has few files of the project, so that a change of others does not install everything again."""
    before = (ROOT / "Dockerfile").read_text().partition("&& scripts/bootstrap")[0]
    for names, target in re.findall(r"^COPY (.+) (\S+)$", before, re.MULTILINE):
        (tmp_path / target).mkdir(parents=True, exist_ok=True)
        for name in names.split():
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, tmp_path / target, dirs_exist_ok=True)
            else:
                shutil.copy(ROOT / name, tmp_path / target)
    nothing_installed = [sys.executable, "-I", "-S", "scripts/bootstrap.py", "--help"]
    ran = subprocess.run(nothing_installed, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("service", "access"), [("scheduler", "rw"), ("dag-processor", "rw"), ("triggerer", "ro"), ("lake-init", "rw")]
)
def test_whatever_runs_code_of_ours_has_lake_source_and_alert_address(service: str, access: str) -> None:
    """Callbacks of killed tasks run in the DAG processor, waits for an hour in the triggerer."""
    found = yaml.safe_load(COMPOSE)["services"][service]
    needed = {"MEDALLION_SOURCE", "MEDALLION_S3_ENDPOINT", "AWS_ACCESS_KEY_ID", "MEDALLION_ALERT_URL"}
    assert needed <= set(found["environment"])
    assert f"lake:/data/lake{':ro' if access == 'ro' else ''}" in found["volumes"]


def test_only_what_starts_spark_drivers_knows_the_secret_of_the_cluster() -> None:
    services = yaml.safe_load(COMPOSE)["services"]
    knowing = {name for name, service in services.items() if "SPARK_SECRET" in service.get("environment", ())}
    assert knowing == {"spark-master", "spark-worker", "lake-init", "scheduler"}


def test_the_profile_feldera_is_a_service_with_a_health_check_of_its_own() -> None:
    services = yaml.safe_load(COMPOSE)["services"]
    feldera = services["feldera"]
    assert feldera["profiles"] == ["feldera"], "it is not started without its profile"
    assert [name for name, service in services.items() if "feldera" in service.get("depends_on", ())] == []
    assert re.fullmatch(
        r"\$\{FELDERA_IMAGE:-images\.feldera\.com/feldera/pipeline-manager:0\.337\.0\}", feldera["image"]
    )
    # as in the compose file of Feldera itself
    assert feldera["healthcheck"]["test"] == [
        *("CMD-SHELL", "curl --fail --request GET --url http://localhost:8080/healthz")
    ]
    assert feldera["healthcheck"]["retries"] * int(feldera["healthcheck"]["interval"].rstrip("s")) >= 60
    known = {"profiles", "image", "ports", "healthcheck", "mem_limit"} | set(yaml.safe_load(COMPOSE)["x-hardened"])
    assert set(feldera) == known, "nothing that compose would not know"
