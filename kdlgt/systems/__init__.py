"""Published systems, each one config: ``kdlgt train`` takes the file, ``--set data.dataset=NAME`` chooses the data."""

from __future__ import annotations

import itertools
import pathlib
import tomllib
from importlib import resources
from typing import Any

from kdlgt.errors import unknown_name

_SUFFIX = ".toml"
_FOLDER = resources.files("kdlgt.systems")


def system_names() -> tuple[str, ...]:
    """Names of the systems that come with kdlgt, sorted."""
    names = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


def system_path(name: str) -> pathlib.Path:
    """The config file of a system.

    Raises:
        UnknownNameError: there is no such system.
    """
    if name not in system_names():
        raise unknown_name("system", name, system_names())
    return pathlib.Path(str(_FOLDER / f"{name}{_SUFFIX}"))


def read_system(name: str) -> dict[str, Any]:
    """The plain tree of a system's config.

    Raises:
        UnknownNameError: there is no such system.
    """
    return tomllib.loads(system_path(name).read_text(encoding="utf-8"))


def system_summary(name: str) -> str:
    """The comment at the head of a system's config, in one line.

    Raises:
        UnknownNameError: there is no such system.
    """
    lines = system_path(name).read_text(encoding="utf-8").splitlines()
    head = itertools.takewhile(lambda line: line.startswith("#"), lines)
    return " ".join(line.removeprefix("#").strip() for line in head)
