"""``kdlgt health`` on a config and on a run."""

from __future__ import annotations

import json
import pathlib
from typing import Any


def test_a_config_and_a_run(kdlgt: Any, tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    report, picture, run = tmp_path / "deep" / "health.json", tmp_path / "health.png", tmp_path / "run"
    untrained = kdlgt("health", tiny, "--rows", 10, "--json", report, "--png", picture)
    assert untrained.code == 0
    assert "effective features" in untrained.out
    heads = json.loads(report.read_text())["heads"]
    assert [(head["layer"], head["head"]) for head in heads] == [(0, 0), (0, 1)]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert kdlgt("train", tiny, "--run-dir", run).code == 0
    assert kdlgt("health", run, "--rows", 10, "--json", report).code == 0
    assert json.loads(report.read_text())["heads"] != heads, "a run has its best weights"


def test_overrides_change_the_model(kdlgt: Any, tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    report = tmp_path / "health.json"
    kdlgt("health", tiny, "--set", "model.features.num_features=8", "--json", report)
    assert {head["num_features"] for head in json.loads(report.read_text())["heads"]} == {8}


def test_a_collapsed_model_is_reported_and_warned_about(kdlgt: Any, tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    outcome = kdlgt("health", tiny, "--set", "model.features.num_features=1")
    assert outcome.code == 0
    assert "collapsed" in outcome.out
    assert "warning: linear attention of layer 0 has collapsed in heads [" in outcome.out


def test_a_model_without_attention_is_one_message(kdlgt: Any, tiny: pathlib.Path) -> None:
    outcome = kdlgt("health", tiny, "--set", "model.attend=false", "--set", "model.local=GCN")
    assert outcome.code == 2
    assert "no attention layer" in outcome.message
