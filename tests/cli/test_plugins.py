from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from kdlgt.cli.plugins import list_plugins
from kdlgt.registry import Registry
from kdlgt.registry.loading import BrokenPlugin

Kdlgt = Callable[..., Any]


def test_plugins_lists_what_is_installed(kdlgt: Kdlgt, tmp_path: pathlib.Path) -> None:
    outcome = kdlgt("plugins", "--json", tmp_path / "plugins.json")
    assert outcome.code == 0
    tree = json.loads((tmp_path / "plugins.json").read_text())
    datasets = {entry["name"]: entry for entry in tree["data sets"]}
    assert datasets["digits"]["level"] == "node"
    assert datasets["digits"]["owner"].startswith("kdlgt ")
    assert "favor+" in [entry["name"] for entry in tree["feature maps"]]
    assert "digits" in outcome.out


@pytest.mark.plugins
def test_encodings_come_with_kind_exactness_and_cost(kdlgt: Kdlgt, tmp_path: pathlib.Path) -> None:
    kdlgt("plugins", "--json", tmp_path / "plugins.json")
    tree = json.loads((tmp_path / "plugins.json").read_text())
    sapd = next(entry for entry in tree["encodings"] if entry["name"] == "sapd")
    assert sapd["kind"] == "kernel"
    assert "N" in sapd["complexity"]
    assert sapd["summary"]


def test_a_broken_plugin_is_shown_with_its_reason(kdlgt: Kdlgt, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Registry(broken=(BrokenPlugin("mine", "mine 0.1", "importing 'mine' raised ImportError: no [brackets]"),))
    assert list_plugins(broken)["broken"] == [
        {"name": "mine", "owner": "mine 0.1", "reason": "importing 'mine' raised ImportError: no [brackets]"}
    ]
    monkeypatch.setattr("kdlgt.registry.load_plugins", lambda: broken)
    outcome = kdlgt("plugins")
    assert outcome.code == 0
    assert "cannot be used: mine of mine 0.1: importing 'mine' raised ImportError: no [brackets]" in outcome.out
