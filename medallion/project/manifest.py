"""medallion.toml: the declaration of a project, which is read and checked before anything else."""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from medallion.errors import UsageError
from medallion.project.deliveries import FEED_KEYS, KEYS, USUAL_DELIVERIES, Deliveries, read_deliveries
from medallion.settings import Settings

NAME = "medallion.toml"
_PROJECT_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_LAYER_NAME = re.compile(r"[a-z][a-z0-9]{0,19}")  # in <layer>_<table>, what stands before the first _
# Reserved: folders that every lake has, and names of steps, which stand beside layers in events and in the DAG.
_TAKEN = frozenset(
    [
        "landing",
        "ops",
        "quarantine",
        "reports",
        "session",
        "land",
        "apply",
        "push",
        "compute",
        "check",
        "publish",
        "validate",
        "refresh",
        "adopt",
        "discard",
        "follow",
        "maintain",
        "rollback",
        "restate",
        "unknown",
    ]
)
_IN_SECTIONS = {"source": "data/source", "lake": "lake"}  # settings that have a section of their own: where each is


@dataclass(frozen=True)
class Manifest:
    """What medallion.toml holds.

    layers: from the bottom up; the first one is fed from the source. generator: the package with commands that make a
    source; None if it comes from elsewhere. owner: the contact for tables that name no owner. defaults: of
    settings, by field, as the texts that an environment variable would have. deliveries: how the source delivers each
    feed.
    """

    name: str
    layers: tuple[str, ...]
    generator: str | None = None
    owner: str = ""
    defaults: Mapping[str, str] = field(default_factory=dict)
    deliveries: Deliveries = USUAL_DELIVERIES


def read_manifest(file: Path) -> Manifest:
    """Read a project's medallion.toml; relative paths in it start from its folder.

    Raises:
        UsageError: It cannot be read, or has an unknown key; the message names the nearest known key.
    """
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    sections = {
        "project": ("name", "layers", "owner"),
        "source": ("path", "generator", "feeds", *KEYS),
        "lake": ("path",),
        "settings": _free_settings(),
    }
    _require_known(file, "", content, sections)
    for section, keys in sections.items():
        if not isinstance(content.get(section, {}), dict):
            raise UsageError(f"{file}: {section} is a section: write [{section}]")
        _require_known(file, f"{section}.", content.get(section, {}), keys)
    source = content.get("source", {})
    for name, keys in source.get("feeds", {}).items() if isinstance(source.get("feeds"), dict) else ():
        if isinstance(keys, dict):
            _require_known(file, f"source.feeds.{name[:40]}.", keys, FEED_KEYS)
    project, generator = content.get("project", {}), source.get("generator")
    if generator is not None and not (isinstance(generator, str) and _PROJECT_NAME.fullmatch(generator)):
        raise UsageError(f'{file}: source.generator is the name of a package in this folder, such as "demo"')
    name, layers = _name_of(file, project), _layers_of(file, project)
    owner = _text(file, "project.owner", project["owner"]) if "owner" in project else ""
    return Manifest(name, layers, generator, owner, _defaults_of(file, content), read_deliveries(file, source))


def _free_settings() -> tuple[str, ...]:
    return tuple(name for name in Settings.model_fields if name not in _IN_SECTIONS)


def _require_known(file: Path, where: str, keys: Iterable[str], known: Iterable[str]) -> None:
    known = [*known]
    for name in keys:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {where}{close[0]}?" if close else f"it may have {', '.join(known)}"
            raise UsageError(f"{file} has an unknown key {where}{name[:40]}: {hint}")


def _name_of(file: Path, project: Mapping[str, Any]) -> str:
    name = project.get("name")
    if not isinstance(name, str) or not _PROJECT_NAME.fullmatch(name):
        raise UsageError(f'{file}: project.name is a word in small letters, such as name = "shop"')
    return name


def _layers_of(file: Path, project: Mapping[str, Any]) -> tuple[str, ...]:
    layers = project.get("layers")
    if not isinstance(layers, list) or not layers or not all(isinstance(layer, str) for layer in layers):
        raise UsageError(f'{file}: project.layers is a list from the bottom up, such as layers = ["bronze", "silver"]')
    for layer in layers:
        if not _LAYER_NAME.fullmatch(layer) or layer in _TAKEN:
            why = "is reserved" if layer in _TAKEN else "must be lower-case letters and digits, starting with a letter"
            raise UsageError(f"{file}: layer {layer[:40]!r} {why}: choose another")
    if len({*layers}) < len(layers):
        raise UsageError(f"{file}: project.layers names a layer twice")
    return tuple(layers)


def _defaults_of(file: Path, content: Mapping[str, Any]) -> dict[str, str]:
    defaults = {name: _text(file, f"settings.{name}", value) for name, value in content.get("settings", {}).items()}
    for section, usual in _IN_SECTIONS.items():
        defaults[section] = _text(file, f"{section}.path", content.get(section, {}).get("path", usual))
        if not isinstance(content.get(section, {}).get("path", usual), str):
            raise UsageError(f"{file}: {section}.path is a text, such as path = {usual!r}")
    for name in {*_IN_SECTIONS, "jars"} & {*defaults}:
        if "://" not in defaults[name]:
            defaults[name] = os.path.join(file.parent, os.path.expanduser(defaults[name]))
    return defaults


def _text(file: Path, key: str, value: Any) -> str:
    if not isinstance(value, str | int | float) or not str(value).strip():
        raise UsageError(f"{file}: {key} is one text, number, true or false, and not empty")
    if not str(value).isprintable():
        raise UsageError(f"{file}: {key} has a character that cannot be printed")
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
