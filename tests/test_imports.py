"""Import directions: the contracts of ``.importlinter``, and the rules they cannot state, read from the sources."""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parent.parent
CORE = ROOT / "kdlgt"
PLUGINS = sorted((ROOT / "plugins").glob("kdlgt_*"))
LAZY = {"lightning", "torchmetrics", "ray", "optuna", "ogb", "rdkit", "numba", "matplotlib", "plotly", "sklearn"}


def imported(path: pathlib.Path, *, top_level_only: bool = False) -> Iterator[str]:
    """Full names of what a file imports, ``from a import b`` as ``a.b``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_below(folder: pathlib.Path, *, top_level_only: bool = False) -> Iterator[tuple[str, str]]:
    """Pairs of (file, imported name) over a folder."""
    for path in sorted(folder.rglob("*.py")):
        yield from ((str(path.relative_to(ROOT)), name) for name in imported(path, top_level_only=top_level_only))


def package(name: str) -> str:
    return name.partition(".")[0]


@pytest.mark.plugins
def test_contracts_of_import_linter() -> None:
    pytest.importorskip("importlinter", reason="import-linter is in the lint group")
    sources = os.pathsep.join(str(ROOT / folder) for folder in (".", "plugins", "tuning"))
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    result = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": sources}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.plugins
def test_every_package_is_under_the_contracts() -> None:
    contracts = (ROOT / ".importlinter").read_text(encoding="utf-8").split()
    packages = [folder.name for parent in ("plugins", "tuning") for folder in (ROOT / parent).glob("kdlgt_*")]
    assert packages
    assert [name for name in packages if name not in contracts] == []


def test_algebra_needs_torch_and_attrs_alone() -> None:
    allowed = sys.stdlib_module_names | {"torch", "attrs", "kdlgt"}
    assert [pair for pair in imports_below(CORE / "algebra") if package(pair[1]) not in allowed] == []


def test_heavy_libraries_are_imported_where_they_are_used() -> None:
    """Importing kdlgt takes torch and PyG; the rest loads inside the functions that need it, or in ``train``."""
    first = [pair for pair in imports_below(CORE, top_level_only=True) if package(pair[1]) in LAZY]
    assert [pair for pair in first if not pair[0].startswith(("kdlgt/train/", "kdlgt/data/", "kdlgt/testing/"))] == []


def test_the_core_names_no_plugin() -> None:
    assert [pair for pair in imports_below(CORE) if package(pair[1]).startswith("kdlgt_")] == []


@pytest.mark.plugins
@pytest.mark.parametrize("folder", PLUGINS, ids=lambda folder: folder.name)
def test_plugins_import_only_what_is_public(folder: pathlib.Path) -> None:
    foreign = [pair for pair in imports_below(folder) if package(pair[1]) not in (folder.name, "__future__")]
    mine = [pair for pair in foreign if package(pair[1]).startswith("kdlgt")]
    assert {package(name) for _, name in mine} == {"kdlgt"}
    assert [pair for pair in mine if any(part.startswith("_") for part in pair[1].split("."))] == []


@pytest.mark.plugins
def test_one_file_of_tuning_imports_ray() -> None:
    users = {file for file, name in imports_below(ROOT / "tuning") if package(name) == "ray"}
    assert len(users) <= 1, users
