"""Each rule of the proofs switched off, one after another: ``python -m tests.mutations`` says what no test notices.

A rule is a statement that refuses: ``raise Unprovable(...)``, ``_require_counters(...)`` and the like. The tests of
proofs run once with nothing switched off, to find out in which of them each rule refuses; no other can notice that it
is missing. Then each rule is replaced by nothing in a process of its own, which runs those tests until one fails. All
processes share one JVM.

Where the rows are narrowed that a query needs there are no such statements: each condition is replaced by true and by
false.
"""

import argparse
import ast
import builtins
import importlib.util
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    "medallion/checks/select_output.py",
    "medallion/checks/unproven.py",
)
TESTS = (
    *("tests/unit/test_refresh_proof.py", "tests/unit/test_proof_names.py", "tests/unit/test_proof_values.py"),
    *("tests/unit/test_derivation.py", "tests/unit/test_kept_relations.py", "tests/unit/test_scope_proof.py"),
    *("tests/unit/test_tables.py", "tests/unit/test_composite_keys.py", "tests/unit/test_personal_columns.py"),
    *("tests/unit/test_refresh_lock.py", "tests/unit/test_selection.py", "tests/unit/test_column_descriptions.py"),
    *("tests/unit/test_table_order.py", "tests/unit/test_unknown_columns.py", "tests/unit/test_kept_state.py"),
    *("tests/unit/test_refresh_property.py", "tests/unit/test_order_property.py"),
    *("tests/unit/test_scope_proof_property.py", "tests/unit/test_results.py"),
    *("tests/unit/test_needed_rows.py", "tests/unit/test_needed_inputs.py"),
)
NARROWING = ("medallion/model/needed_rows.py",)
NARROWING_TESTS = ("tests/unit/test_needed_rows.py",)
RAISED = {"Unprovable", "Nondeterministic", "Unproven"}
CALLED = re.compile(r"_?(refuse|require)(_\w+)?")
SECONDS = 900  # a rule without which the tests do not end is noticed, too
REFUSED = "_rule_refused"  # a function that changed modules call
PLAIN = "--assert=plain"  # pytest would load the modules itself, to rewrite what they assert


@dataclass(frozen=True)
class Rule:
    """A statement that refuses, or a condition.

    line: in its file, from 1. says: its code, as far as one line takes. column: of a condition, from 0. value: what a
    condition is replaced by; None for a statement.
    """

    path: str
    line: int
    says: str
    column: int = 0
    value: bool | None = None

    @property
    def place(self) -> str:
        """Return where it is, as an editor opens it."""
        return f"{self.path}:{self.line}"


def rules_in(path: Path) -> Iterator[Rule]:
    """Every statement of a module that refuses something, in order."""
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.stmt) and _refuses(node)]
    for node in sorted(found, key=lambda node: node.lineno):
        yield Rule(str(path.relative_to(ROOT)), node.lineno, ast.unparse(node)[:100])


def conditions_in(path: Path) -> Iterator[Rule]:
    """Every condition of a module, and every part of one, as true and as false."""
    found: dict[tuple[int, int, str], None] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        tests = [node.test] if isinstance(node, ast.If | ast.IfExp) else []
        tests += node.ifs if isinstance(node, ast.comprehension) else []
        tests += node.values if isinstance(node, ast.BoolOp) else []
        found |= dict.fromkeys((test.lineno, test.col_offset, ast.unparse(test)) for test in tests)
    for line, column, code in sorted(found):
        for value in (True, False):
            yield Rule(str(path.relative_to(ROOT)), line, f"{code[:100]} -> {value}", column, value)


def _refuses(node: ast.AST) -> bool:
    called = node.exc if isinstance(node, ast.Raise) else node.value if isinstance(node, ast.Expr) else None
    if not isinstance(called, ast.Call):
        return False
    name = str(getattr(called.func, "id", "") or getattr(called.func, "attr", ""))
    return name in RAISED if isinstance(node, ast.Raise) else CALLED.fullmatch(name) is not None


class Without(ast.NodeTransformer):
    """Replaces a statement that refuses by nothing, or a condition by its value."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def visit(self, node: ast.AST) -> Any:
        """Return what stands in the place of ``node``."""
        rule = self._rule
        if getattr(node, "lineno", 0) != rule.line:
            return self.generic_visit(node)
        if rule.value is None and _refuses(node):
            return ast.copy_location(ast.Pass(), node)
        is_there = isinstance(node, ast.expr) and node.col_offset == rule.column
        if rule.value is not None and is_there and ast.unparse(node)[:100] == rule.says.rpartition(" -> ")[0]:
            return ast.copy_location(ast.Constant(rule.value), node)
        return self.generic_visit(node)


class Watched(ast.NodeTransformer):
    """Has every rule of a module call ``REFUSED`` with its place where it refuses."""

    def __init__(self, path: str) -> None:
        self._path = path

    def visit(self, node: ast.AST) -> Any:
        """Return what stands in the place of ``node``."""
        if not isinstance(node, ast.stmt) or not _refuses(node):
            return self.generic_visit(node)
        call = ast.parse(f"{REFUSED}({f'{self._path}:{node.lineno}'!r})").body[0]
        handler = ast.ExceptHandler(ast.Name("BaseException", ast.Load()), None, [call, ast.Raise()])
        return ast.copy_location(ast.Try([node], [handler], [], []), node)


class Loader(SourceFileLoader):
    """Loads a module whose code was changed."""

    def __init__(self, name: str, path: str, change: ast.NodeTransformer) -> None:
        super().__init__(name, path)
        self._change = change

    def get_code(self, fullname: str) -> CodeType:
        """Return the module's code, compiled from what the change makes of it."""
        changed = self._change.visit(ast.parse(Path(self.path).read_text()))
        return compile(ast.fix_missing_locations(changed), self.path, "exec")


class Finder(MetaPathFinder):
    """Finds changed modules before anybody else does. changes: by the path of a module's file."""

    def __init__(self, changes: Mapping[str, ast.NodeTransformer]) -> None:
        self._changes = {path.removesuffix(".py").replace("/", "."): (path, change) for path, change in changes.items()}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Return the module's specification, and None for every other module."""
        if fullname not in self._changes:
            return None
        file, change = self._changes[fullname]
        place = str(ROOT / file)
        spec: ModuleSpec | None = importlib.util.spec_from_file_location(
            fullname, place, loader=Loader(fullname, place, change)
        )
        return spec


class Watch:
    """Remembers the first test that fails, and in which tests each rule refused."""

    failed = ""
    _running = ""

    def __init__(self) -> None:
        self.refusing: dict[str, dict[str, None]] = {}  # tests by the place of a rule, in order

    def refused(self, place: str) -> None:
        """Take note that the rule at ``place`` refuses; what no test does yet, a module of tests does as it is read."""
        self.refusing.setdefault(place, {})[self._running] = None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self._running = nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a test's outcome."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module of tests that cannot be imported fails as well."""
        if report.failed and not self.failed:
            self.failed = report.nodeid


def run_whole(rules: Iterable[Rule], tests: Sequence[str]) -> tuple[str, Mapping[str, Sequence[str]]]:
    """Run the tests with nothing switched off: the first that fails, and by place those in which a rule refuses."""
    found = _in_a_process({rule.path: Watched(rule.path) for rule in rules}, tests)
    return found["failed"], found.get("refusing", {})


def noticed_by(rule: Rule, tests: Sequence[str]) -> str:
    """The test that fails without a rule; empty where none does."""
    return str(_in_a_process({rule.path: Without(rule)}, tests)["failed"])


def _in_a_process(changes: Mapping[str, ast.NodeTransformer], tests: Sequence[str]) -> dict[str, Any]:
    """Run tests of changed modules in a process of its own, and return what it watched."""
    reading, writing = os.pipe()
    if not (process := os.fork()):
        _run_tests(changes, tests, writing)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return {"failed": f"no end within {SECONDS} seconds"}
    found: dict[str, Any] = json.loads(text)
    return found


def _run_tests(changes: Mapping[str, ast.NodeTransformer], tests: Sequence[str], writing: int) -> None:
    """Run the tests, say what was watched, and end the process without ending the JVM that others will use."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    signal.alarm(SECONDS)
    SparkSession.stop = lambda self: None  # type: ignore[method-assign]
    SparkContext._gateway.proc = None  # type: ignore[union-attr]
    sys.meta_path.insert(0, Finder(changes))
    watch = Watch()
    setattr(builtins, REFUSED, watch.refused)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    code = pytest.main(["-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", PLAIN, *tests], plugins=[watch])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        watch.failed = watch.failed or f"pytest, with exit code {int(code)}"
    with os.fdopen(writing, "w") as answer:
        json.dump(
            {"failed": watch.failed, "refusing": {place: [*tests] for place, tests in watch.refusing.items()}}, answer
        )
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
    found += [rule for path in NARROWING for rule in conditions_in(ROOT / path)]
    rules = [rule for rule in found if not asked.places or {rule.path, rule.place} & {*asked.places}]
    start_spark()
    failed, refusing = run_whole([rule for rule in rules if rule.value is None], asked.tests)
    if failed:
        print(f"{failed} fails though nothing is switched off")
        return 2
    unnoticed = 0
    for number, rule in enumerate(rules, 1):
        tests = refusing.get(rule.place, ()) if rule.value is None else NARROWING_TESTS
        test = noticed_by(rule, asked.tests if "" in tests else tests) if tests else ""
        unnoticed += not test
        missed = f"NOTICED BY NONE OF {len(tests)} TESTS" if tests else "REFUSES IN NO TEST"
        print(f"{number}/{len(rules)} {rule.place} {rule.says}: {test or missed}", flush=True)
    print(f"{len(rules) - unnoticed} of {len(rules)} rules are noticed by a test")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
