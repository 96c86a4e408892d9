"""What is done with a run folder afterwards: evaluate, predict, compare."""

from __future__ import annotations

import csv
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

Kdlgt = Callable[..., Any]


@pytest.fixture
def run_dir(kdlgt: Kdlgt, tiny: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    assert kdlgt("train", tiny, "--run-dir", tmp_path / "run").code == 0
    return tmp_path / "run"


def test_evaluate_repeats_the_result_and_runs_the_exact_twin(
    kdlgt: Kdlgt, run_dir: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    result = json.loads((run_dir / "result.json").read_text())
    plain = kdlgt("evaluate", run_dir, "--json", tmp_path / "linear.json")
    assert f"{result['test']['accuracy']:.4f}" in plain.out
    assert json.loads((tmp_path / "linear.json").read_text())["test"] == result["test"]
    exact = kdlgt("evaluate", run_dir, "--set", "model.attention=exact", "--json", tmp_path / "exact.json")
    assert exact.code == 0
    assert set(json.loads((tmp_path / "exact.json").read_text())["test"]) == {"accuracy", "f1"}


def test_predict_writes_a_row_per_node(kdlgt: Kdlgt, run_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    outcome = kdlgt("predict", run_dir, "--out", tmp_path / "out.csv")
    assert "34 rows" in outcome.out
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted(int(row["node"]) for row in rows) == list(range(34))
    assert all(abs(sum(float(row[f"probability_{label}"]) for label in range(4)) - 1) < 1e-4 for row in rows)


def test_compare_prints_a_row_per_config(
    kdlgt: Kdlgt, run_dir: pathlib.Path, tiny: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert kdlgt("train", tiny, "--run-dir", tmp_path / "wide", "--set", "model.hidden=16").code == 0
    outcome = kdlgt("compare", run_dir, tmp_path / "wide", "--json", tmp_path / "table.json")
    assert outcome.code == 0
    rows = json.loads((tmp_path / "table.json").read_text())["runs"]
    assert [row["name"] for row in rows] == [str(run_dir), str(tmp_path / "wide")]
    assert rows[0]["parameters"] < rows[1]["parameters"]


def test_a_damaged_checkpoint_is_one_message(kdlgt: Kdlgt, run_dir: pathlib.Path) -> None:
    best = run_dir / "best.ckpt"
    best.write_bytes(best.read_bytes()[:1000])
    outcome = kdlgt("evaluate", run_dir)
    assert outcome.code == 2
    assert "best.ckpt cannot be read" in outcome.message
    assert "Traceback" not in outcome.err
