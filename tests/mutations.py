"""Each rule of the proofs switched off, one after another: ``python -m tests.mutations`` says what no test notices.

A rule is a statement that refuses: ``raise Unprovable(...)``, ``_require_counters(...)`` and the like. Each is replaced
by nothing in a process of its own, which runs the tests of proofs until one fails. All of them share one JVM.
"""

import argparse
import ast
import importlib.util
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
RULES = (
    "medallion/model/*.py",
    "medallion/derive/*.py",
    "medallion/checks/scope_proof.py",
    "medallion/checks/query_shapes.py",
)
TESTS = (
    *("tests/unit/test_refresh_proof.py", "tests/unit/test_proof_names.py", "tests/unit/test_proof_values.py"),
    *("tests/unit/test_derivation.py", "tests/unit/test_kept_relations.py", "tests/unit/test_scope_proof.py"),
)
RAISED = {"Unprovable", "Nondeterministic", "Unproven"}
CALLED = re.compile(r"_?(refuse|require)(_\w+)?")
SECONDS = 600  # a rule without which the tests do not end is noticed, too
WHOLE = "nothing is switched off"


@dataclass(frozen=True)
class Rule:
    """A statement that refuses. line: in its file, from 1. says: its code, as far as one line takes."""

    path: str
    line: int
    says: str

    @property
    def place(self) -> str:
        """Return where it is, as an editor opens it."""
        return f"{self.path}:{self.line}"


def rules_in(path: Path) -> Iterator[Rule]:
    """Every statement of a module that refuses something, in order."""
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.stmt) and _refuses(node)]
    for node in sorted(found, key=lambda node: node.lineno):
        yield Rule(str(path.relative_to(ROOT)), node.lineno, ast.unparse(node)[:100])


def _refuses(node: ast.AST) -> bool:
    called = node.exc if isinstance(node, ast.Raise) else node.value if isinstance(node, ast.Expr) else None
    if not isinstance(called, ast.Call):
        return False
    name = str(getattr(called.func, "id", "") or getattr(called.func, "attr", ""))
    return name in RAISED if isinstance(node, ast.Raise) else CALLED.fullmatch(name) is not None


class Without(ast.NodeTransformer):
    """Replaces the rule at a line by nothing."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def visit(self, node: ast.AST) -> Any:
        """Return what stands in the place of ``node``."""
        if _refuses(node) and getattr(node, "lineno", 0) == self._rule.line:
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)


class Loader(SourceFileLoader):
    """Loads the module of a rule without it."""

    def __init__(self, name: str, path: str, rule: Rule) -> None:
        super().__init__(name, path)
        self._rule = rule

    def get_code(self, fullname: str) -> CodeType:
        """Return the module's code, compiled from what is left."""
        left = Without(self._rule).visit(ast.parse(Path(self.path).read_text()))
        return compile(ast.fix_missing_locations(left), self.path, "exec")


class Finder(MetaPathFinder):
    """Finds the module of one rule before anybody else does."""

    def __init__(self, rule: Rule) -> None:
        self._rule, self._name = rule, rule.path.removesuffix(".py").replace("/", ".")

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Return the module's specification, and None for every other module."""
        if fullname != self._name:
            return None
        place = str(ROOT / self._rule.path)
        spec: ModuleSpec | None = importlib.util.spec_from_file_location(
            fullname, place, loader=Loader(fullname, place, self._rule)
        )
        return spec


class FirstFailure:
    """Remembers the first test that fails."""

    test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a test's outcome."""
        if report.failed and not self.test:
            self.test = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module of tests that cannot be imported fails as well."""
        if report.failed and not self.test:
            self.test = report.nodeid


def noticed_by(rule: Rule | None, tests: Sequence[str]) -> str:
    """The test that fails without a rule, run in a process of its own; empty where none does."""
    reading, writing = os.pipe()
    if not (process := os.fork()):
        _run_tests(rule, tests, writing)
    os.close(writing)
    with os.fdopen(reading) as told:
        found = told.read()
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return f"no end within {SECONDS} seconds"
    return found


def _run_tests(rule: Rule | None, tests: Sequence[str], writing: int) -> None:
    """Run the tests, say which failed, and end the process without ending the JVM that others will use."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    signal.alarm(SECONDS)
    SparkSession.stop = lambda self: None  # type: ignore[method-assign]
    SparkContext._gateway.proc = None  # type: ignore[union-attr]
    if rule is not None:
        sys.meta_path.insert(0, Finder(rule))
    failure = FirstFailure()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    code = pytest.main(["-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *tests], plugins=[failure])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        failure.test = failure.test or f"pytest, with exit code {int(code)}"
    os.write(writing, failure.test.encode())
    os._exit(0)


def start_spark() -> None:
    """Start the JVM that all processes share, and forget every module that a rule may be in."""
    from medallion.settings import Settings
    from medallion.spark.session import spark_session
    from tests import jvm

    os.environ.setdefault("SPARK_SUBMIT_OPTS", jvm.TEST_JVM_OPTIONS)
    os.environ["TZ"] = "UTC"
    time.tzset()
    spark_session(Settings.from_environment().replace(spark_master="local[2]", driver_memory="2g"), "mutations")
    for name in [*sys.modules]:
        if name.split(".")[0] in {"medallion", "tests"} and name != __name__:
            del sys.modules[name]


def main() -> int:
    """Switch off one rule after another; the exit code is 1 where one is noticed by no test."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("places", nargs="*", help="FILE or FILE:LINE of rules; all of them if none is given")
    options.add_argument("--tests", nargs="+", default=TESTS, help="what is run")
    asked = options.parse_args()
    found = [rule for pattern in RULES for path in sorted(ROOT.glob(pattern)) for rule in rules_in(path)]
    rules = [rule for rule in found if not asked.places or {rule.path, rule.place} & {*asked.places}]
    start_spark()
    if failed := noticed_by(None, asked.tests):
        print(f"{failed} fails though {WHOLE}")
        return 2
    unnoticed = 0
    for number, rule in enumerate(rules, 1):
        test = noticed_by(rule, asked.tests)
        unnoticed += not test
        print(f"{number}/{len(rules)} {rule.place} {rule.says}: {test or 'NOTICED BY NO TEST'}", flush=True)
    print(f"{len(rules) - unnoticed} of {len(rules)} rules are noticed by a test")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
