"""The command line without a lake, or with a small one: groups, help, what is imported, output by width."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake.exceptions import DeltaError

from medallion.cli import define
from medallion.cli.common import STEP_NAMES
from medallion.cli.main import cli, run
from medallion.errors import UsageError
from medallion.inspect.preview import Difference, Rows
from medallion.pipeline.steps import STEPS
from tests.unit.small_lake import H0, H1, Shop

GROUPS = ["airflow", "bench", "catalog", "quarantine", "release", "source"]
FULL_DISK = pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full")
LISTINGS = {
    ("status",): [],
    ("tables",): [],
    ("events",): [],
    ("expectations",): [],
    ("query",): ["SELECT * FROM gold_orders"],
    ("release", "list"): [],
    ("release", "show"): [],
    ("release", "diff"): ["1", "2"],
    ("quarantine", "list"): [],
    ("quarantine", "show"): ["orders"],
}
ON_SPARK = {("compare",), ("preview",), ("plan",), ("explain",)}  # they list too, of what Spark computes or analyses
WORK = {  # these do something, and say in words how it went
    *{
        ("load",),
        ("refresh",),
        ("reprocess",),
        ("follow",),
        ("step",),
        ("maintain",),
        ("spark-server",),
        ("completion",),
        ("data-docs",),
    },
    *{("catalog", "duckdb"), ("catalog", "spark")},
    *{("adopt",), ("discard",), ("erase",), ("quarantine", "replay"), ("feldera-program",)},
    *{("release", name) for name in ("rollback", "hold", "unhold")},
    *{("source", name) for name in ("generate", "break", "mend", "check", "infer")},
    ("init",),
    *{("airflow", name) for name in ("up", "down", "run")},
    *{("bench", name) for name in ("run", "dag", "scale", "aging", "streaming")},
}


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is no group."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


@pytest.fixture
def lake(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A lake with two releases, which the environment leads to."""
    shop.put(H0, {1: "a", 2: "b"})
    shop.refresh()
    monkeypatch.setenv("MEDALLION_LAKE", shop.settings.lake)
    monkeypatch.setattr("medallion.ops.lake_tables.tables_of", lambda *_: shop.tables)
    monkeypatch.setattr("medallion.pipeline.driver.tables_in", lambda *_: shop.tables)
    monkeypatch.setattr("medallion.inspect.status.tables_of", lambda *_: shop.tables)
    return shop


def test_every_command_that_lists_has_json_and_wide() -> None:
    assert {path for path, _ in commands()} == LISTINGS.keys() | WORK | ON_SPARK
    for path, command in commands():
        options = {name: option for option in command.params for name in option.opts}
        form = options.get("--format")
        if path in LISTINGS or path in ON_SPARK:
            assert form is not None and "json" in form.type.choices, path
            assert "--wide" in options, path
        elif form is not None and "json" in form.type.choices:
            raise AssertionError(f"medallion {' '.join(path)} lists something: name it in LISTINGS")


@pytest.mark.parametrize("path", LISTINGS, ids=" ".join)
def test_listing_prints_json_and_a_table_that_fits_every_width(lake: Shop, path: tuple[str, ...]) -> None:
    words = [*path, *LISTINGS[path]]
    printed = CliRunner().invoke(cli, [*words, "--format", "json"])
    assert printed.exit_code == 0, printed.exception
    assert isinstance(json.loads(printed.stdout), list if path != ("status",) else dict)
    whole = CliRunner().invoke(cli, [*words, "--wide"]).stdout
    assert "not shown" not in whole
    for width in (60, 80, 200):
        shown = CliRunner().invoke(cli, words, env={"COLUMNS": str(width)}).stdout
        paths = [word for word in whole.split() if len(word) > 50]
        assert all(len(line) <= width for line in shown.splitlines() if not any(path in line for path in paths))
        if "row 1 ──" not in shown and "not shown" not in shown:
            assert re.findall(r"\d[\d,.]*", shown) == re.findall(r"\d[\d,.]*", whole)


def test_query_turns_vertical_when_its_columns_do_not_fit(lake: Shop) -> None:
    query = ["query", "SELECT id, 123456789.25 AS amount, repeat('x', 30) AS name FROM gold_orders ORDER BY id"]
    narrow = CliRunner().invoke(cli, query, env={"COLUMNS": "40"}).stdout
    assert narrow.splitlines()[:4] == ["── row 1 ──", "id      1", "amount  123456789.25", f"name    {'x' * 30}"]
    wide = CliRunner().invoke(cli, query, env={"COLUMNS": "80"}).stdout
    assert wide.splitlines()[0].split() == ["id", "amount", "name"]


def test_query_shows_the_tables_of_the_release_and_their_columns(lake: Shop) -> None:
    tables = CliRunner().invoke(cli, ["query", "SHOW TABLES", "--format", "csv"]).stdout.split()
    assert tables == ["name", *sorted(table.name for table in lake.tables)]
    columns = CliRunner().invoke(cli, ["query", "DESCRIBE gold_orders", "--format", "json"]).stdout
    assert [column["column_name"] for column in json.loads(columns)] == ["id", "name"]


@pytest.mark.parametrize(
    "command",
    [
        *("status", "tables", "events", "expectations", "data-docs", "maintain", "follow"),
        *("quarantine list", "quarantine show orders", "release list"),
    ],
)
def test_commands_say_that_a_lake_does_not_exist_and_make_none(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "nowhere"))
    monkeypatch.setattr(sys, "argv", ["medallion", *command.split()])
    assert run(cli) == 2
    assert f"lake {tmp_path / 'nowhere'} does not exist: run medallion load" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_each_shell(shell: str) -> None:
    script = CliRunner().invoke(cli, ["completion", shell]).stdout
    assert "_MEDALLION_COMPLETE" in script


def test_completion_offers_commands() -> None:
    script = "import sys; from medallion.cli.main import main; sys.argv = ['medallion']; main()"
    words = {"_MEDALLION_COMPLETE": "bash_complete", "COMP_WORDS": "medallion release di", "COMP_CWORD": "2"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=words)
    assert done.stdout.split(",")[-1].strip() == "diff"


@pytest.mark.parametrize("group", GROUPS)
def test_group_prints_its_help_when_no_command_is_given(
    group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["medallion", group])
    assert run(cli) == 0
    printed = capsys.readouterr()
    assert "Commands:\n" in printed.out
    assert printed.err == ""


def test_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(cli, ["--version"]).output == f"medallion, version {version('medallion')}\n"


def test_bench_has_its_five_commands() -> None:
    assert set(listed("bench")) == {"run", "dag", "scale", "aging", "streaming"}


@pytest.mark.parametrize("group", ["", *GROUPS])
def test_help_says_what_each_command_does_in_whole_sentences(group: str) -> None:
    assert not [line for line in listed(*group.split()).values() if "..." in line or not line.endswith(".")]


def listed(*group: str) -> dict[str, str]:
    """The commands that the help of a group lists, each with its sentence."""
    shown = CliRunner().invoke(cli, [*group, "--help"], terminal_width=80).output.partition("Commands:\n")[2]
    entries = re.findall(r"^  (\S+) +((?:.|\n   )+)", shown, re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in entries}


def test_help_imports_neither_the_benchmark_nor_an_engine() -> None:
    code = (
        "import sys; from medallion.cli.main import cli\n"
        "try: cli(['refresh', '--help'])\n"
        "except SystemExit: pass\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"bench", "pyspark", "deltalake", "duckdb", "great_expectations"} & set(done.stderr.split())


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["nonsense"], 2)])
def test_command_ends_before_the_interpreter_takes_objects_apart(words: list[str], code: int) -> None:
    script = (
        "import sys; from medallion.cli.main import main\n"
        "class Alive:\n"
        "    def __del__(self, write=sys.__stderr__.write): write('taken apart')\n"
        f"alive = Alive(); sys.argv = ['medallion', *{words}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == code
    assert done.stdout + done.stderr
    assert "taken apart" not in done.stderr


@FULL_DISK
def test_command_fails_when_its_output_cannot_be_written() -> None:
    script = "import sys; from medallion.cli.main import main; sys.argv = ['medallion', '--help']; main()"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("medallion: cannot write: ")


@pytest.mark.parametrize(("status", "code"), [(0, 0), (None, 0), (3, 3)])
def test_command_keeps_its_exit_code_when_it_is_stopped(status: int | None, code: int) -> None:
    def stopped(**_: object) -> None:
        raise SystemExit(status)

    assert run(stopped) == code


def test_steps_on_the_command_line_are_those_that_run() -> None:
    assert tuple(STEPS) == STEP_NAMES


@pytest.mark.parametrize("option", ["--last=-3", "--last=0", "--days=-1", "--days=99999999999"])
def test_a_number_of_events_that_cannot_be_is_refused_as_wrong_use(option: str) -> None:
    result = CliRunner().invoke(cli, ["events", option])
    assert result.exit_code == 2 and "is not in the range" in result.output


@FULL_DISK
def test_a_full_disk_is_one_line_with_advice_whichever_library_finds_it(capsys: pytest.CaptureFixture[str]) -> None:
    def write(**_: object) -> None:
        # An open file, not a path: pyarrow removes the path that it could not write.
        with open("/dev/full", "wb") as full:
            pq.write_table(pa.table({"x": [1]}), full)

    def commit(**_: object) -> None:
        raise DeltaError("Failed to parse parquet: Unable to copy data to file: No space left on device (os error 28)")

    for command in (write, commit):
        assert run(command) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "No space left on device" in line and line.endswith("then run this again")


@pytest.mark.parametrize("path", [(), *((group,) for group in GROUPS), *(path for path, _ in commands())], ids=" ".join)
def test_help_fits_a_terminal_of_80_columns(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, [*path, "--help"], terminal_width=80)
    assert result.exit_code == 0
    assert not [line for line in result.output.splitlines() if len(line) > 80]


def test_help_needs_no_benchmark_which_the_package_alone_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medallion.cli.main.find_spec", lambda _: None)
    shown = CliRunner().invoke(cli, ["--help"])
    assert (shown.exit_code, "bench" in shown.output) == (0, False), shown.output
    assert CliRunner().invoke(cli, ["bench"]).exit_code == 2


@pytest.mark.parametrize("command", ["refresh", "reprocess"])
def test_a_selection_that_names_no_table_is_not_one_of_all(command: str) -> None:
    done = CliRunner().invoke(cli, [command, "--select", " "])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == "--select names no table: name some, or leave it out"


@pytest.mark.parametrize(("form", "printed"), [("table", ""), ("csv", "side,id\n")])
def test_preview_of_equal_rows_is_a_sentence(form: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    equal = Difference(0, 0, 0, [], Rows(["side", "id"], []))
    preview: Any = SimpleNamespace(
        table=SimpleNamespace(name="gold_orders"), release=SimpleNamespace(release_id=3), difference=lambda _: equal
    )
    define._show(preview, 20, True, form)
    out, err = capsys.readouterr()
    sentence = "gold_orders against release 3: 0 inserted, 0 deleted, 0 changed\n"
    assert out.replace("\r", "") == printed + (sentence if form == "table" else "")
    assert err.endswith(sentence if form == "csv" else "")


def test_a_forecast_says_of_which_hour_and_strategy_it_is(lake: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_SOURCE", lake.settings.source)
    lake.put(H1, {3: "c"})
    todo = CliRunner().invoke(cli, ["plan", "--next"], catch_exceptions=False).stdout
    words = " ".join(todo.split())  # lines are wrapped to the width of the terminal
    assert words.startswith(f"{H1}: forecast of an incremental refresh run medallion refresh --hour {H1}")
    assert f"--hour {H1} --strategy incremental (in Airflow: Strategy incremental)" in words
    done = CliRunner().invoke(cli, ["plan", "--hour", H0], catch_exceptions=False).stdout
    assert done.startswith(f"{H0}: forecast of an incremental refresh, beside what was done\n") and "run " not in done
    found = CliRunner().invoke(cli, ["plan", "--next", "--format", "json"], catch_exceptions=False).stdout
    assert {**json.loads(found), "tables": []} == {"hour": H1, "strategy": "incremental", "tables": []}
