"""The environment is read where a process begins, and written nowhere."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shop import PROJECT

# Where processes begin: the commands, the tasks of Airflow, the file that spark-pipelines runs, the DAG files; and the
# project, whose settings they ask for.
DOORS = (
    *("medallion/cli/", "medallion/airflow/", "medallion/declarative/pipeline.py", "medallion/project/project.py"),
    *("bench/cli.py", "bench/tpcds.py", "dags/"),
)

# Variables of other tools, which they name and which have no setting of ours.
OTHERS_VARIABLES = {
    "medallion/settings.py": "what from_environment reads",
    "medallion/spark/java.py": "JAVA_HOME and PATH, as every Java tool goes by",
    "medallion/spark/session.py": "PYSPARK_GATEWAY_PORT, by which spark-submit hands over its JVM",
    "medallion/spark/jvm.py": "the same",
    "medallion/spark/jars.py": "MEDALLION_IVY_SETTINGS, as set-up fetches JARs before anything is installed",
    "medallion/loopback.py": "the proxies of this machine, as every client reads them",
    "medallion/spark/server.py": "Spark's own token; the environment of the server it starts",
    "medallion/inspect/openlineage.py": "OPENLINEAGE_*, as its client reads them",
    "medallion/ops/writer_lock.py": "XDG_STATE_HOME, where a user's state is kept",
    "bench/tpch.py": "the environment of the commands that it starts, without settings of ours",
    "bench/declarative.py": "the environment of spark-pipelines, without the driver's own session",
}
CHANGING = {"update", "setdefault", "pop", "popitem", "clear"}
WRITERS = {
    "medallion/spark/session.py": "pyspark starts its JVM with a copy of os.environ and takes no other",
    "medallion/loopback.py": "every client, in every language, finds its proxy there; called where a process begins",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("medallion", "bench", "demo", "dags", "spark_jobs", "expectations", "plugins"):
        for file in sorted((PROJECT / folder).rglob("*.py")):
            yield file.relative_to(PROJECT).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def is_environment(node: ast.AST) -> bool:
    """Whether an expression is os.environ."""
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def reads(tree: ast.Module) -> bool:
    """Whether a module reads os.environ, or asks for the settings of the environment."""
    names = {"from_environment", "environ", "getenv"}
    return any(isinstance(node, ast.Attribute) and node.attr in names for node in ast.walk(tree)) or any(
        isinstance(node, ast.ImportFrom) and node.module == "os" and names & {alias.name for alias in node.names}
        for node in ast.walk(tree)
    )


def writes(tree: ast.Module) -> bool:
    """Whether a module changes os.environ: by an item, by a method, or by the functions of os."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_environment(node.value) and not isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.Attribute) and node.attr in {"putenv", "unsetenv"}:
            return True
        changed = isinstance(node, ast.Attribute) and is_environment(node.value) and node.attr in CHANGING
        if changed:
            return True
        if isinstance(node, ast.AugAssign) and is_environment(node.target):
            return True
    return False


def test_environment_is_read_at_the_doors_alone() -> None:
    readers = {name for name, tree in modules() if reads(tree) and not name.startswith(DOORS)}
    assert readers == set(OTHERS_VARIABLES), "take the value as an argument, from the settings that a door has read"


def test_environment_is_written_for_what_takes_nothing_else_alone() -> None:
    assert {name for name, tree in modules() if writes(tree)} == set(WRITERS)


def test_settings_of_the_environment_are_asked_for_at_the_doors_alone() -> None:
    asking = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "from_environment" and not name.startswith(DOORS)
    }
    assert asking == set()


@pytest.mark.parametrize(
    "line",
    [
        "os.environ['X'] = '1'",
        "del os.environ['X']",
        "os.environ.setdefault('X', '1')",
        "os.environ |= {'X': '1'}",
        "os.putenv('X', '1')",
    ],
)
def test_each_way_of_writing_the_environment_is_seen(line: str) -> None:
    assert writes(ast.parse(f"import os\n{line}"))


def test_lent_variables_are_gone_after_the_jvm_has_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    from medallion.spark.session import lent_to_children

    monkeypatch.setenv("KEPT", "before")
    monkeypatch.delenv("LENT", raising=False)
    monkeypatch.setenv("LEFT_OUT", "before")
    with lent_to_children({"KEPT": "within", "LENT": str(tmp_path), "LEFT_OUT": None, "NEVER_SET": None}):
        assert (os.environ["KEPT"], os.environ["LENT"]) == ("within", str(tmp_path))
        assert "LEFT_OUT" not in os.environ
    assert os.environ["KEPT"] == os.environ["LEFT_OUT"] == "before" and "LENT" not in os.environ
