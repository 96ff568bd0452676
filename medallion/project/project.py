"""One project, found from where a command runs: its folder, its layers, its tables, what is expected across them."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from importlib import import_module
from inspect import signature
from pathlib import Path
from pkgutil import iter_modules
from threading import RLock
from traceback import extract_tb
from types import ModuleType
from typing import Any

from medallion.errors import BadDeclaration, MedallionError, UsageError, one_line
from medallion.expect.vocabulary import Expectation
from medallion.model.refresh_lock import NAME, with_methods
from medallion.model.registry import Registry, as_declared, build
from medallion.model.table import ChangeLog, Feed, Node, Table
from medallion.project import manifest
from medallion.project.deliveries import USUAL_DELIVERIES, Deliveries
from medallion.project.manifest import Manifest, read_manifest
from medallion.settings import PREFIX, Settings

ROOT = "PROJECT"  # MEDALLION_PROJECT, the environment variable with the folder
_FOLDERS = ("spark_jobs", "expectations")  # of every project, with Python modules in them
_ARGUMENT = re.compile(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")  # as Python says it
_entered: ContextVar["Project"] = ContextVar("project")
_importing = RLock()


@dataclass(frozen=True)
class Project:
    """A folder with medallion.toml.

    root: the folder. name: of the project. layers: from the bottom up; the first one is fed from the source, the others
    are computed. defaults: of settings, which environment variables win over. generator: the package with commands that
    make a source. deliveries: how the source delivers each feed. owner: the contact for tables that name no owner.
    """

    root: Path
    name: str
    layers: tuple[str, ...]
    defaults: Mapping[str, str]
    generator: str | None = None
    deliveries: Deliveries = USUAL_DELIVERIES
    owner: str = ""

    @contextmanager
    def entered(self) -> Iterator["Project"]:
        """Make ``find_project`` return this project until the block ends, in this thread or asynchronous task only.

        So tasks and requests of two projects in one process do not interfere.
        """
        token = self.enter()
        try:
            yield self
        finally:
            _entered.reset(token)

    def enter(self) -> Token["Project"]:
        """Make ``find_project`` return this project for the rest of the asynchronous task that calls it."""
        return _entered.set(self)

    def settings(self, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read the settings from ``environment``, falling back to medallion.toml. Raises UsageError."""
        return Settings.from_environment(self.environment(environment), self.defaults)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return ``variables`` with each general one replaced by the one that contains the project's name, if set.

        MEDALLION_SHOP_LAKE is for the project shop alone, and overrides MEDALLION_LAKE.
        """
        own = f"{PREFIX}{self.name.upper()}_"
        plain = {name: text for name, text in variables.items() if not name.startswith(own)}
        ours = {f"{PREFIX}{name.removeprefix(own)}": text for name, text in variables.items() if name.startswith(own)}
        return {**plain, **ours}

    def variables(self, **settings: str) -> dict[str, str]:
        """Return variables that give a child process these settings, whatever else its environment says."""
        names = (PREFIX, f"{PREFIX}{self.name.upper()}_")
        return {f"{prefix}{name.upper()}": text for name, text in settings.items() for prefix in names}

    def registry(self, *, extras: bool = False) -> Registry:
        """Return the tables that the project declares; medallion.ops.lake_tables says which of them a lake has.

        extras: whether with those that are declared extra. Raises BadDeclaration as ``build`` does, and for a module
        that declares no table.
        """
        return _registry(self.root, self.layers, extras, self.deliveries)

    def suite(self, layer: str) -> Mapping[str, tuple[Expectation, ...]]:
        """Return the expectations across tables in ``expectations/<layer>.py``; empty if there is no such module.

        Raises BadDeclaration for an expectation on a table that the layer does not declare.
        """
        return _suite(self.root, self.layers, layer, self.deliveries)


def project_above(folder: Path) -> Project | None:
    """Return the nearest project from ``folder`` upwards; None if there is none. Raises as ``project_at`` does."""
    for place in (folder, *folder.parents):
        if (place / manifest.NAME).is_file():
            return project_at(place)
    return None


def find_project(start: Path | None = None, *, or_checkout: bool = True) -> Project:
    """Find the project: the one that was entered, else the folder that MEDALLION_PROJECT names, else the nearest one
    from ``start`` upwards.

    Args:
        start: By default the working directory.
        or_checkout: Whether a checkout of this package that runs elsewhere, as a process of Airflow may, finds the
            checkout's own project. A command does not: whoever types it in another folder means another lake.

    Raises:
        UsageError: There is none, or it cannot be read.
    """
    if start is None and (entered := _entered.get(None)) is not None:
        return entered
    if folder := os.environ.get(f"{PREFIX}{ROOT}", "").strip():
        root = Path(folder).expanduser().resolve()
        if not (root / manifest.NAME).is_file():
            raise UsageError(f"{PREFIX}{ROOT}={folder}: that folder has no {manifest.NAME}")
        return project_at(root)
    here = (start or Path.cwd()).resolve()
    if project := project_above(here):
        return project
    if or_checkout and (project := project_above(Path(__file__).resolve().parents[2])):
        return project
    raise UsageError(
        f"there is no project here: neither {here} nor a folder above it has a {manifest.NAME}; go into a project, name"
        f" its folder in {PREFIX}{ROOT}, or make one with medallion init DIR"
    )


def find_template() -> Path:
    """Return the folder with the files of a new project."""
    return Path(__file__).with_name("template")


@cache
def project_at(root: Path) -> Project:
    """Read the project in ``root``. Raises UsageError if its medallion.toml is invalid."""
    read: Manifest = read_manifest(root / manifest.NAME)
    return Project(root, read.name, read.layers, read.defaults, read.generator, read.deliveries, read.owner)


@cache
def _registry(root: Path, layers: tuple[str, ...], extras: bool, deliveries: Deliveries) -> Registry:
    with _own_modules(root):
        declared = [*deliveries.fill_in(_declared(root, layers), root / manifest.NAME)]
    owner = project_at(root).owner
    declared = [replace(table, owner=table.owner or owner) for table in declared]
    tables = build((table for table in declared if extras or not table.extra), layers)
    return with_methods(tables, root / NAME)


def _declared(root: Path, layers: tuple[str, ...]) -> Iterator[Node]:
    _package(root, "spark_jobs")
    unknown = {path.parent.name for path in (root / "spark_jobs").glob("*/*.py")} - {*layers}
    if unknown:
        raise BadDeclaration(f"spark_jobs/{min(unknown)} is no layer of {root / manifest.NAME}: add it there")
    for place, layer in enumerate(layers):
        package = _package(root, f"spark_jobs.{layer}")
        for info in iter_modules(package.__path__):
            if info.name.startswith("_"):
                continue
            module = _import(f"{package.__name__}.{info.name}", root)
            declared = getattr(module, "TABLE", None)
            if not isinstance(declared, Table if place else Feed | ChangeLog):
                wanted = "Table" if place else "Feed or ChangeLog"
                raise BadDeclaration(f"spark_jobs/{layer}/{info.name}.py declares no TABLE, a {wanted}, for its layer")
            path = root / "spark_jobs" / layer / f"{info.name}.py"
            yield from as_declared(declared, layer, path, module.__doc__ or "")


@cache
def _suite(
    root: Path, layers: tuple[str, ...], layer: str, deliveries: Deliveries
) -> Mapping[str, tuple[Expectation, ...]]:
    name = f"{package_of(root)}.expectations"
    if not (root / "expectations" / f"{layer}.py").is_file():
        return {}
    with _own_modules(root):
        suite: Any = getattr(_import(f"{name}.{layer}", root), "SUITE", None)
    if not isinstance(suite, Mapping):
        raise BadDeclaration(f"expectations/{layer}.py declares no SUITE, a dictionary of expectations by table")
    declared = {table.name for table in _registry(root, layers, True, deliveries) if table.layer == layer}
    if unknown := sorted(set(suite) - declared):
        raise BadDeclaration(
            f"expectations/{layer}.py has expectations on {', '.join(unknown)}, which layer {layer} does not have:"
            f" name one of {', '.join(sorted(declared)) or 'none'}"
        )
    return suite


@contextmanager
def _own_modules(root: Path) -> Iterator[None]:
    """Let the modules of a project import its folders by name during the block; then free these names for others."""
    with _importing:
        others = {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] in _FOLDERS}
        for name in _FOLDERS:
            _add_package(name, root / name)
        try:
            yield
        finally:
            for name in [name for name in sys.modules if name.partition(".")[0] in _FOLDERS]:
                del sys.modules[name]
            sys.modules.update(others)


def _import(name: str, root: Path) -> ModuleType:
    """Import a module of a project. Raises BadDeclaration, with file and line, for any error in it."""
    try:
        return import_module(name)
    except MedallionError:
        raise
    except (Exception, SystemExit) as error:
        frames = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(root)]
        place = (error.filename, error.lineno) if isinstance(error, SyntaxError) else None
        file, line = place or ((frames[-1].filename, frames[-1].lineno) if frames else (name, 0))
        shown = Path(str(file)).relative_to(root) if Path(str(file)).is_relative_to(root) else file
        raise BadDeclaration(f"{shown}, line {line}: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    """Return what is wrong in a module; for an unknown argument of a name of this package, with the nearest one."""
    wrong = _ARGUMENT.search(str(error)) if isinstance(error, TypeError) else None
    called = wrong and getattr(import_module("medallion"), wrong[1], None)
    if wrong is None or called is None:
        return f"{type(error).__name__}: {one_line(error)}"
    known = [*signature(called).parameters]
    close = get_close_matches(wrong[2], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(known)}"
    return f"{wrong[1]} has no argument {wrong[2]}: {hint}"


def _package(root: Path, folder: str) -> ModuleType:
    try:
        return import_module(f"{package_of(root)}.{folder}")
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith(package_of(root)):
            missing = folder.replace(".", "/")
            raise UsageError(f"{root} has no folder {missing}: make it, or mend {manifest.NAME}") from None
        raise


def package_of(root: Path) -> str:
    """Return the package of a project's modules: it is unique, so that two projects never share a module name."""
    name = f"medallion_project_{sha256(str(root).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        _add_package(name, root)
    return name


def _add_package(name: str, folder: Path) -> None:
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package
