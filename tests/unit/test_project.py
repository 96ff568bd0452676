"""A project is a folder with medallion.toml: its layers, its tables and its settings are what it says."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from medallion.checks.suites import suites
from medallion.cli.main import cli
from medallion.errors import BadDeclaration, MedallionError, UsageError
from medallion.ops.lake_tables import tables_of
from medallion.project import find_project, project_at
from medallion.project.manifest import read_manifest
from medallion.project.project import package_of
from medallion.spark.session import in_parallel
from medallion.storage.lake import Lake
from tests.shop import PROJECT

TOML = """
[project]
name = "clinic"
layers = ["raw", "marts"]

[source]
path = "arrivals"

[settings]
currency = "EUR"
extras = true
max_bad_lines = 0.5
"""
VISITS = '''
"""Visits of patients. One row per visit_id."""

from medallion.model.table import Feed

TABLE = Feed(keys=("visit_id",), schema="visit_id BIGINT NOT NULL, ward STRING, seen_at TIMESTAMP")
'''
WARDS = '''
"""Visits by ward. One row per ward."""

from medallion.model.table import Table

TABLE = Table(
    keys=("ward",),
    nullable_keys=("ward",),
    query="SELECT ward, COUNT(*) AS visits FROM {raw_visits} GROUP BY ward",
)
'''


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """A project of another business, with two layers and two tables."""
    for name, text in {
        "medallion.toml": TOML,
        "spark_jobs/raw/visits.py": VISITS,
        "spark_jobs/marts/wards.py": WARDS,
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_a_project_has_the_layers_and_tables_of_its_folder(clinic: Path) -> None:
    tables = project_at(clinic).registry()
    assert [*tables.tables] == ["raw_visits", "marts_wards"]
    assert (tables.layers, tables.fed_layer, tables.result_layers) == (("raw", "marts"), "raw", ("marts",))
    assert [feed.name for feed in tables.feeds] == ["raw_visits"]
    assert tables["marts_wards"].doc == "Visits by ward. One row per ward."


def test_it_is_the_nearest_folder_upwards_unless_the_environment_names_one(
    clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = clinic / "spark_jobs" / "raw"
    monkeypatch.delenv("MEDALLION_PROJECT", raising=False)
    assert find_project(below).root == clinic
    monkeypatch.setenv("MEDALLION_PROJECT", str(PROJECT))
    assert (find_project(below).root, find_project(below).name) == (PROJECT, "shop")
    monkeypatch.setenv("MEDALLION_PROJECT", str(below))
    with pytest.raises(UsageError, match=r"MEDALLION_PROJECT=.*that folder has no medallion\.toml"):
        find_project()


def test_its_settings_are_relative_to_its_folder_and_the_environment_wins(clinic: Path) -> None:
    settings = project_at(clinic).settings({})
    assert (settings.source, settings.currency) == (str(clinic / "arrivals"), "EUR")
    assert (settings.extras, settings.max_bad_lines) == (True, 0.5)
    settings = project_at(clinic).settings({"MEDALLION_CURRENCY": "CHF", "MEDALLION_SOURCE": "/elsewhere"})
    assert (settings.source, settings.currency, settings.extras) == ("/elsewhere", "CHF", True)


@pytest.mark.parametrize(
    ("former", "wrong", "message"),
    [
        ("[source]", "[sauce]", "unknown key sauce: did you mean source"),
        ("layers =", "layer =", "unknown key project.layer: did you mean project.layers"),
        ("currency", "curency", "unknown key settings.curency: did you mean settings.currency"),
        ('"raw", "marts"', '"raw", "raw"', "names a layer twice"),
        ('"raw", "marts"', '"raw", "my_marts"', "layer 'my_marts' must be lower-case letters and digits"),
        ('"raw", "marts"', '"raw", "ops"', "layer 'ops' is reserved"),
        ('["raw", "marts"]', '"raw"', "project.layers is a list from the bottom up"),
        ('name = "clinic"', 'name = "The Clinic"', "project.name is a word in small letters"),
        ("[project]", "[project", "cannot be read"),
    ],
)
def test_what_medallion_toml_may_not_say_is_refused_in_one_line(
    clinic: Path, former: str, wrong: str, message: str
) -> None:
    file = clinic / "medallion.toml"
    file.write_text(TOML.replace(former, wrong, 1))
    with pytest.raises(UsageError) as refusal:
        read_manifest(file)
    assert message in str(refusal.value) and str(file) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def declare(clinic: Path, name: str, text: str) -> None:
    (clinic / name).parent.mkdir(parents=True, exist_ok=True)
    (clinic / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("spark_jobs/marts/empty.py", '"""Nothing."""', "spark_jobs/marts/empty.py declares no TABLE, a Table"),
        ("spark_jobs/raw/wards.py", WARDS, "spark_jobs/raw/wards.py declares no TABLE, a Feed or ChangeLog"),
        ("spark_jobs/diamond/__init__.py", "", "spark_jobs/diamond is no layer of .*medallion.toml: add it there"),
        (
            "spark_jobs/marts/wards.py",
            WARDS.replace("{raw_visits}", "{raw_visit}"),
            "spark_jobs/marts/wards.py, line 9, reads raw_visit, which is no table: did you mean raw_visits?",
        ),
        (
            "spark_jobs/marts/wards.py",
            WARDS.replace("nullable_keys", "nulable_keys"),
            "spark_jobs/marts/wards.py, line 6: Table has no argument nulable_keys: did you mean nullable_keys?",
        ),
        ("spark_jobs/raw/visits.py", VISITS.replace('("visit_id",)', "()"), "raw/visits.py declares no keys"),
        (
            "spark_jobs/marts/wards.py",
            WARDS.replace('keys=("ward",),', "keys=(),", 1),
            "marts/wards.py declares no keys",
        ),
        ("spark_jobs/marts/Wards.py", WARDS, "names the table marts_Wards: names are of lower-case letters"),
        ("spark_jobs/raw/visits.py", VISITS.replace("visits of", "", 1).replace("Feed", "Fed"), "visits.py, line"),
    ],
)
def test_what_a_project_may_not_declare_is_refused_with_its_module(
    clinic: Path, name: str, text: str, message: str
) -> None:
    declare(clinic, name, text)
    with pytest.raises(BadDeclaration, match=message) as refused:
        project_at(clinic).registry()
    assert refused.value.exit_code == 2


def test_a_project_without_a_table_is_refused_and_says_where_to_write_one(
    clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDALLION_PROJECT", str(clinic))
    for module in (clinic / "spark_jobs").glob("*/*.py"):
        module.unlink()
    with pytest.raises(BadDeclaration, match="project clinic has no table: write a feed to spark_jobs/raw/"):
        tables_of(Lake(str(clinic / "lake")))
    assert project_at(clinic).registry().feeds == (), "the first feed is inferred in a project without one"


def test_a_suite_on_a_table_that_its_layer_does_not_have_is_refused(
    clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDALLION_PROJECT", str(clinic))
    declare(clinic, "expectations/marts.py", 'SUITE = {"marts_nothing": ()}')
    with pytest.raises(BadDeclaration, match=r"expectations/marts\.py.*marts_nothing"):
        suites(project_at(clinic), "marts", project_at(clinic).registry())


def test_a_command_in_a_folder_of_another_project_is_about_that_one(clinic: Path) -> None:
    command = [sys.executable, "-m", "medallion", "status"]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    environment.pop("MEDALLION_PROJECT", None)
    done = subprocess.run(command, cwd=clinic / "spark_jobs", env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"lake {clinic / 'lake'} does not exist" in done.stderr
    (clinic / "medallion.toml").write_text(TOML.replace("layers", "layer"))
    done = subprocess.run(command, cwd=clinic, env=environment, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr


@pytest.mark.parametrize(
    "words", [("status",), ("load",), ("refresh",), ("source", "check"), ("plan",), ("airflow", "up")]
)
def test_a_command_outside_any_project_takes_none_of_the_checkout(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEDALLION_PROJECT", raising=False)
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(cli, [*words]).exception
    assert isinstance(refused, UsageError)
    assert str(refused).startswith(f"there is no project here: neither {tmp_path} nor a folder above it has a")
    assert find_project().root == PROJECT, "as before, for processes of Airflow and scripts"
    assert CliRunner().invoke(cli, [*words, "--help"]).exit_code == 0
    monkeypatch.setenv("MEDALLION_PROJECT", str(PROJECT))
    assert find_project(or_checkout=False).root == PROJECT


def test_threads_of_a_step_and_other_tasks_find_what_their_own_door_entered(clinic: Path) -> None:
    with project_at(clinic).entered(), in_parallel() as pool:
        assert pool.submit(lambda: find_project().name).result() == "clinic"
        assert [*pool.map(lambda _: find_project().name, range(3))] == ["clinic"] * 3
        with project_at(PROJECT).entered():
            assert pool.submit(lambda: find_project().name).result() == "shop"

    async def request(root: Path) -> str:
        project_at(root).enter()
        await asyncio.sleep(0.01)
        return await asyncio.to_thread(lambda: find_project().name)

    async def both() -> list[str]:
        return await asyncio.gather(*(asyncio.create_task(request(root)) for root in (clinic, PROJECT)))

    assert asyncio.run(both()) == ["clinic", "shop"]


def test_a_variable_with_the_name_of_the_project_is_for_it_alone_and_wins(clinic: Path) -> None:
    environment = {"MEDALLION_LAKE": "/both", "MEDALLION_CLINIC_LAKE": "/own", "MEDALLION_SHOP_SOURCE": "/other"}
    settings = project_at(clinic).settings(environment)
    assert (settings.lake, settings.source) == ("/own", str(clinic / "arrivals"))
    assert project_at(PROJECT).settings(environment).lake == "/both"


def test_modules_of_two_projects_with_the_same_names_do_not_meet(clinic: Path, tmp_path: Path) -> None:
    declare(clinic, "expectations/values.py", 'WARD = "one"\n')
    words = "from expectations.values import WARD\nfrom medallion.model"
    declare(clinic, "spark_jobs/marts/wards.py", WARDS.replace("from medallion.model", words, 1))
    other = tmp_path / "other"
    for name in ("medallion.toml", "spark_jobs/raw/visits.py", "spark_jobs/marts/wards.py"):
        declare(other, name, (clinic / name).read_text())
    declare(other, "expectations/values.py", 'WARD = "two"\n')
    for root in (clinic, other):
        project_at(root).registry()
    found = {root: sys.modules[f"{package_of(root)}.spark_jobs.marts.wards"].WARD for root in (clinic, other)}
    assert found == {clinic: "one", other: "two"}
    assert not {"spark_jobs.marts", "expectations.values"} & sys.modules.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"""One row."""\n\n1 / 0\n', "spark_jobs/marts/broken.py, line 3: ZeroDivisionError"),
        ('"""One row."""\nTABLE = Table(keys=(\n', "spark_jobs/marts/broken.py, line 2: SyntaxError"),
        ('"""One row."""\nimport sys\nsys.exit(3)\n', "spark_jobs/marts/broken.py, line 3: SystemExit"),
        ('"""One row."""\nfrom medallion import Tabel\n', "spark_jobs/marts/broken.py, line 2: ImportError"),
    ],
)
def test_a_module_that_raises_is_named_with_its_line(clinic: Path, text: str, message: str) -> None:
    declare(clinic, "spark_jobs/marts/broken.py", text)
    with pytest.raises(MedallionError) as refused:
        project_at(clinic).registry()
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)


def test_a_suite_that_is_none_and_a_layer_without_an_entry_are_refused(clinic: Path) -> None:
    declare(clinic, "expectations/marts.py", "PROMISES = {}\n")
    with pytest.raises(MedallionError, match=r"expectations/marts\.py declares no SUITE"):
        project_at(clinic).suite("marts")
    declare(clinic, "spark_jobs/diamond/wards.py", WARDS)
    with pytest.raises(MedallionError, match="spark_jobs/diamond is no layer"):
        project_at(clinic).registry()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("path = 3", "source.path is a text"),
        ('path = ""', "source.path is one text"),
        ('path = ["a"]', "source.path is one text"),
        ('path = "a\\u0000b"', "a character that cannot be printed"),
    ],
)
def test_a_path_that_is_none_is_refused(clinic: Path, line: str, message: str) -> None:
    (clinic / "medallion.toml").write_text(TOML.replace('path = "arrivals"', line))
    with pytest.raises(UsageError, match=message):
        read_manifest(clinic / "medallion.toml")
