"""A new plugin distribution, made from the template by renaming."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

from kdlgt.errors import ArgumentError, PluginError

TEMPLATE = "kdlgt-peers"
PACKAGED = pathlib.Path(__file__).parent / "plugin_template"
IN_REPOSITORY = pathlib.Path(__file__).parents[2] / "plugins" / TEMPLATE
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
KEPT = frozenset({".py", ".toml", ".md", ".typed"})


def template_folder() -> pathlib.Path:
    """The template, in the installed package or, for an editable installation, in the repository.

    Raises:
        PluginError: this installation does not hold it.
    """
    for folder in (PACKAGED, IN_REPOSITORY):
        if (folder / "pyproject.toml").is_file():
            return folder
    raise PluginError(f"the template is neither in {PACKAGED} nor in {IN_REPOSITORY}; install kdlgt again")


def write_plugin(name: str, parent: pathlib.Path) -> pathlib.Path:
    """Write the distribution ``kdlgt-NAME`` with the encoding NAME, complete with tests.

    Args:
        name: lower-case words joined by underscores.
        parent: where the new folder goes; made when it is not there.

    Returns:
        The new folder.

    Raises:
        ArgumentError: the name cannot be an encoding and a Python package at once, or the folder is there already.
    """
    if not NAME.fullmatch(name):
        raise ArgumentError(f"name = {name!r}; allowed: lower-case letters, digits and underscores, a letter first")
    folder = parent / f"kdlgt-{name.replace('_', '-')}"
    if folder.exists():
        raise ArgumentError(f"{folder} is there already; give another name, or another --dir")
    source = template_folder()
    for file in _files(source):
        target = folder / _renamed(file.relative_to(source).as_posix(), name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_renamed(file.read_text(encoding="utf-8"), name), encoding="utf-8")
    return folder


def _files(source: pathlib.Path) -> Iterator[pathlib.Path]:
    """What belongs to the template, without what builds and test runs leave."""
    for file in sorted(source.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(source).parts)
        if file.is_file() and file.suffix in KEPT and not hidden:
            yield file


def _renamed(text: str, name: str) -> str:
    """The distribution's name has hyphens, the package's underscores, the classes' capitals."""
    camel = "".join(word.capitalize() for word in name.split("_"))
    new = {TEMPLATE: f"kdlgt-{name.replace('_', '-')}", "peers": name, "Peers": camel}
    return re.sub("|".join(new), lambda found: new[found[0]], text)
