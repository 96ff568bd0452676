"""The command line without a lake: groups, help, what is imported."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from medallion.cli.main import cli, run

GROUPS = ["bench", "quarantine", "release", "source"]


@pytest.mark.parametrize("group", GROUPS)
def test_group_prints_its_help_when_no_command_is_given(
    group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["medallion", group])
    assert run(cli) == 0
    printed = capsys.readouterr()
    assert "Commands:\n" in printed.out
    assert printed.err == ""


def test_bench_has_its_five_commands() -> None:
    shown = CliRunner().invoke(cli, ["bench", "--help"]).output
    listed = {line.split()[0] for line in shown.partition("Commands:")[2].splitlines() if line}
    assert listed == {"run", "dag", "scale", "aging", "streaming"}


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


def test_command_fails_when_its_output_cannot_be_written() -> None:
    script = "import sys; from medallion.cli.main import main; sys.argv = ['medallion', '--help']; main()"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("medallion: cannot write: ")
