"""A project is declared in the words of the engine, which looks projects up by name, at known places alone."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import medallion

ENGINE = Path(medallion.__file__).parent
PROJECT_PACKAGES = ("spark_jobs", "expectations", "demo", "dags", "bench")
# Beside what import-linter watches: the imports that it does not see, each with why there is one.
BY_NAME = {
    "cli/main.py": "runs the commands of the benchmark, which are not the engine's",
}


def imported_by_name(tree: ast.Module) -> Iterator[str]:
    """The name, or what a composed name begins with, of each import that is a call."""
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if function in {"import_module", "find_spec", "__import__"}:
            name = node.args[0]
            name = constants.get(name.id, name) if isinstance(name, ast.Name) else name
            name = name.values[0] if isinstance(name, ast.JoinedStr) else name
            if isinstance(name, ast.Constant):
                yield str(name.value)


def typed_words() -> dict[str, str]:
    """By word, the module from which type checkers take it."""
    tree = ast.parse((ENGINE / "__init__.py").read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    return {
        word.name: str(node.module) for node in block.body if isinstance(node, ast.ImportFrom) for word in node.names
    }


def test_engine_looks_a_project_up_by_name_at_known_places_alone() -> None:
    places = {
        str(file.relative_to(ENGINE))
        for file in ENGINE.rglob("*.py")
        for name in imported_by_name(ast.parse(file.read_text()))
        if name.partition(".")[0] in PROJECT_PACKAGES
    }
    assert places == set(BY_NAME)


def test_each_word_is_what_type_checkers_take_it_for() -> None:
    typed = typed_words()
    assert sorted(medallion.__all__) == sorted(typed)
    for word, module in typed.items():
        assert getattr(medallion, word) is getattr(import_module(module), word), word


def test_what_is_no_word_is_named() -> None:
    with pytest.raises(ImportError, match="'Tabel' from 'medallion'"):
        from medallion import Tabel  # noqa: F401


def test_words_are_imported_when_asked_for_and_start_no_engine() -> None:
    code = (
        "import sys, medallion; print(*(name for name in sys.modules if name.startswith('medallion.')), sep=',')\n"
        "from medallion import *; print({'pyspark', 'great_expectations', 'sqlglot', 'airflow'} & set(sys.modules))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["", "set()"]
