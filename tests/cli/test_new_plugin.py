from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from kdlgt.cli.template import _renamed

Kdlgt = Callable[..., Any]


@pytest.mark.plugins
def test_new_plugin_writes_a_distribution(kdlgt: Kdlgt, tmp_path: pathlib.Path) -> None:
    outcome = kdlgt("new-plugin", "far_away", "--dir", tmp_path / "new")
    folder = tmp_path / "new" / "kdlgt-far-away"
    assert outcome.code == 0
    assert str(folder) in outcome.out
    assert {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()} == {
        "README.md",
        "pyproject.toml",
        "kdlgt_far_away/__init__.py",
        "kdlgt_far_away/py.typed",
        "tests/test_far_away.py",
    }
    assert "class FarAwayRPE(MultiplicativeRPE):" in (folder / "kdlgt_far_away" / "__init__.py").read_text()
    again = kdlgt("new-plugin", "far_away", "--dir", tmp_path / "new")
    assert (again.code, "is there already" in again.message) == (2, True)


@pytest.mark.plugins
@pytest.mark.parametrize("name", ["Far", "1st", "far-away", "far__away", "../far", "far_"])
def test_names_that_cannot_be_packages_are_refused(kdlgt: Kdlgt, tmp_path: pathlib.Path, name: str) -> None:
    outcome = kdlgt("new-plugin", name, "--dir", tmp_path)
    assert outcome.code == 2
    assert f"name = '{name}'; allowed: lower-case letters" in outcome.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.plugins
def test_a_name_that_is_taken_is_refused(kdlgt: Kdlgt, tmp_path: pathlib.Path) -> None:
    outcome = kdlgt("new-plugin", "sapd", "--dir", tmp_path)
    assert outcome.code == 2
    assert "name = 'sapd' is taken by kdlgt" in outcome.message


def test_a_name_that_holds_the_templates_is_renamed_once() -> None:
    assert _renamed("kdlgt-peers kdlgt_peers Peers", "superpeers") == "kdlgt-superpeers kdlgt_superpeers Superpeers"
