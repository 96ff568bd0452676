"""The documentation: its links lead somewhere, and each page belongs to one of the four kinds."""

import re
import tomllib
from pathlib import Path

import click
import pytest

from medallion.cli.main import cli
from scripts.reference import PAGES as GENERATED

PAGES = [Path("README.md"), Path("CONTRIBUTING.md"), *sorted(Path("docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:^|`)(?:[A-Z_]+=\S* )*medallion ([^`\n#>|;]+)", re.M)
CONTEXT = click.Context(cli)
TEST = re.compile(r"`((?:unit|spark|airflow|e2e|faults)/\w+)`")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_page_links_to_files_and_headings_that_exist(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if not link.startswith(("http:", "https:", "mailto:"))]
    for link in links:
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page} links to {link}"
        assert not heading or heading in anchors(target), f"{page} links to {link}"


def test_every_page_is_of_one_kind_and_reachable_from_the_index() -> None:
    index = Path("docs/index.md").read_text()
    for folder in ("how-to", "reference", "explanation"):
        for page in Path("docs", folder).glob("*.md"):
            assert f"{folder}/{page.name}" in index, f"docs/index.md does not link {page}"
    loose = {page.name for page in Path("docs").glob("*.md")}
    assert loose == {"index.md", "tutorial.md"}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_page_names_commands_and_options_that_exist(page: Path) -> None:
    for line in COMMAND.findall(page.read_text()):
        words = line.split()
        command: click.Command = cli
        while isinstance(command, click.Group) and words and (child := command.get_command(CONTEXT, words[0])):
            command, words = child, words[1:]
        assert command is not cli or words[:1] == ["COMMAND"], f"{page}: medallion {line}"
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        if command.context_settings.get("ignore_unknown_options"):  # what follows belongs to another program
            continue
        unknown = {word for word in words if word.startswith("--")} - known - {"--help"}
        assert not unknown, f"{page}: medallion {line}"


@pytest.mark.parametrize("page", ["reliability.md", "threat-model.md"])
def test_page_of_promises_names_tests_that_exist(page: str) -> None:
    tests = set(TEST.findall(Path("docs/explanation", page).read_text()))
    assert tests
    assert not [test for test in tests if not Path("tests", f"{test}.py").exists()]


@pytest.mark.parametrize("name", GENERATED)
def test_reference_says_what_the_code_says(name: str) -> None:
    assert Path("docs/reference", name).read_text() == GENERATED[name](), "make reference writes it again"


def test_architecture_names_the_floors_in_their_order_and_files_that_exist() -> None:
    page = Path("docs/explanation/architecture.md").read_text()
    contracts = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (floors,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    order = {name: place for place, floor in enumerate(floors) for name in floor.split(" | ")}
    named = re.findall(r"^\|[^|]*\| `(medallion/\w+)` \|", page, re.M)
    places = [order[name.replace("/", ".")] for name in named]
    assert places == sorted(places), named
    assert {name for name in order if Path(name.replace(".", "/")).is_dir() and name.startswith("medallion.")} == {
        name.replace("/", ".") for name in named
    }
    missing = [name for name in re.findall(r"`((?:medallion|tests)/[\w/.]+)`", page) if not Path(name).exists()]
    assert not missing


def test_architecture_explains_words_that_are_classes_where_it_says() -> None:
    page = Path("docs/explanation/architecture.md").read_text()
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|[^|]*\| `(medallion/[\w/]+\.py)` \|$", page, re.M)
    explained = [(word, file) for words, file in rows for word in re.findall(r"\w+", words)]
    assert len(explained) > 15
    assert not [(word, file) for word, file in explained if f"\nclass {word}" not in Path(file).read_text()]
