"""``kdlgt bench``: tables, JSON and pictures at tiny sizes."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

GRID = ("--min-log2n", 5, "--max-log2n", 5.5, "--repeats", 1, "--hidden", 8, "--heads", 2, "--features", 8)


@pytest.mark.parametrize("command", ["attention", pytest.param("model", marks=pytest.mark.plugins)])
def test_time_and_memory(command: str, kdlgt: Any, tmp_path: pathlib.Path) -> None:
    report, picture = tmp_path / "deep" / "bench.json", tmp_path / "bench.png"
    outcome = kdlgt(
        "bench", command, "--methods", "linear", "dense", *GRID, "--threads", 1, "--json", report, "--png", picture
    )
    assert outcome.code == 0
    tree = json.loads(report.read_text())
    cells = {(cell["method"], cell["nodes"]) for cell in tree["cells"]}
    assert cells == {(method, nodes) for method in ("linear", "dense") for nodes in (32, 45)}
    assert all(cell["outcome"] == "ok" and cell["median"] > 0 for cell in tree["cells"])
    assert tree["environment"]["versions"]["torch"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = " ".join(outcome.out.split())
    assert "median time (ratio to linear)" in printed
    assert "peak memory beyond the inputs" in printed


def test_memory_is_limited(kdlgt: Any, tmp_path: pathlib.Path) -> None:
    """N x N does not fit into the limit: reported, and nothing else ends."""
    report = tmp_path / "bench.json"
    options = ("--log2n", 13, "--repeats", 1, "--memory-limit", 0.5, "--threads", 1)
    assert kdlgt("bench", "attention", "--methods", "linear", "dense", *options, "--json", report).code == 0
    outcomes = {cell["method"]: cell["outcome"] for cell in json.loads(report.read_text())["cells"]}
    assert outcomes == {"linear": "ok", "dense": "out of memory"}


def test_an_unknown_method_is_one_message(kdlgt: Any) -> None:
    outcome = kdlgt("bench", "attention", "--methods", "dnse")
    assert outcome.code == 2
    assert "Did you mean 'dense'?" in outcome.message


def test_error_of_every_map(kdlgt: Any, tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    report, picture = tmp_path / "error.json", tmp_path / "error.png"
    outcome = kdlgt("bench", "error", tiny, "--counts", 8, 16, "--seeds", 1, "--json", report, "--png", picture)
    assert outcome.code == 0
    assert "favor+ iid" in outcome.out
    (model,) = json.loads(report.read_text())["models"]
    assert set(model["best"]) == {"8", "16"}
    assert picture.read_bytes().startswith(b"\x89PNG")
