from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest
import torch

from kdlgt.config import load_config
from kdlgt.registry import load_plugins

Kdlgt = Callable[..., Any]
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def test_train_writes_a_run_folder_and_prints_the_test_metrics(
    kdlgt: Kdlgt, tiny: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    outcome = kdlgt("train", tiny, "--run-dir", tmp_path / "run", "--set", "train.epochs=2", "--set", "train.seed=7")
    assert (outcome.code, outcome.err) == (0, "")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["seed"] == 7
    assert result["epochs"] == 2
    assert f"{result['test']['accuracy']:.4f}" in outcome.out
    assert "epoch 2/2" in outcome.out
    assert str(tmp_path / "run") in outcome.out


def test_the_default_folder_is_named_by_config_and_seed(
    kdlgt: Kdlgt, tiny: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert kdlgt("train", tiny).code == 0
    assert (tmp_path / "runs" / "tiny-seed0" / "result.json").is_file()


def test_seeds_print_mean_and_deviation(kdlgt: Kdlgt, tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    outcome = kdlgt("train", tiny, "--run-dir", tmp_path / "runs", "--seeds", 2)
    assert outcome.code == 0
    tree = json.loads((tmp_path / "runs" / "result.json").read_text())
    assert f"{tree['deviation']['accuracy']:.4f}" in outcome.out


def test_a_second_run_needs_resume(kdlgt: Kdlgt, tiny: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = ("--run-dir", tmp_path / "run")
    assert kdlgt("train", tiny, *target).code == 0
    refused = kdlgt("train", tiny, *target)
    assert refused.code == 2
    assert "--resume" in refused.message
    assert kdlgt("train", tiny, *target, "--resume").code == 0
    other = kdlgt("train", tiny, *target, "--resume", "--set", "train.lr=0.5")
    assert other.code == 2
    assert "train.lr = 0.01 there, 0.5 here" in other.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[model]\nheds = 4\n", "heds"),
        ("[model.attention]\nmode = 'linaer'\n", "linear"),
        ("[model]\nlayers = 3.7\n", "model.layers"),
        ("[train]\nlr = 'fast'\n", "train.lr"),
        ("[[model.rpe]]\nname = 'no-such-encoding'\n", "no-such-encoding"),
        ("model = [", "not TOML"),
        (None, "no such file"),
    ],
)
def test_a_broken_config_is_one_message(kdlgt: Kdlgt, tmp_path: pathlib.Path, text: str | None, expected: str) -> None:
    path = tmp_path / "broken.toml"
    if text is not None:
        path.write_text(text)
    outcome = kdlgt("train", path, "--run-dir", tmp_path / "run")
    assert outcome.code == 2
    assert "error:" in outcome.message
    assert expected in outcome.message
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "run").exists()


def own_graphs(path: pathlib.Path, label: int, count: int = 12) -> None:
    from torch_geometric.data import Data

    edge_index = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(x=torch.ones(2, 1), edge_index=edge_index, y=torch.tensor([label])) for _ in range(count)]
    torch.save(graphs, path)


@pytest.mark.parametrize(
    ("label", "count", "data", "expected"),
    [
        (-1, 12, "", "label"),
        (0, 2, "", "part of the split is empty"),
        (0, 12, "ratios = [0.5, 0.2, 0.2]", "data.ratios"),
    ],
)
def test_data_without_labels_or_an_empty_split_is_one_message(
    kdlgt: Kdlgt, tmp_path: pathlib.Path, label: int, count: int, data: str, expected: str
) -> None:
    own_graphs(tmp_path / "graphs.pt", label, count)
    config = tmp_path / "own.toml"
    dataset = '[data.dataset]\nname = "files"\ngraphs = "graphs.pt"\nlevel = "graph"\ntask = "multiclass"\n'
    config.write_text(f"[data]\n{data}\n{dataset}")
    outcome = kdlgt("train", config, "--data-root", tmp_path, "--run-dir", tmp_path / "run")
    assert outcome.code == 2
    assert expected in outcome.message
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "run").exists()


def test_the_shipped_demo_is_the_example() -> None:
    shipped = (resources.files("kdlgt.train") / "digits.toml").read_text()
    assert shipped == (EXAMPLES / "digits.toml").read_text()


@pytest.mark.plugins
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_example_is_a_valid_config(path: pathlib.Path) -> None:
    config = load_config(path, registry=load_plugins())
    assert config.model.rpe


@pytest.mark.plugins
def test_the_demo_compares_with_and_without_rpe_linear_and_exact(kdlgt: Kdlgt, tmp_path: pathlib.Path) -> None:
    outcome = kdlgt("train", "--run-dir", tmp_path / "demo", "--set", "train.epochs=2", "--set", "model.layers=1")
    assert outcome.code == 0, outcome.err
    headings = [line for line in outcome.out.splitlines() if line.startswith("digits, RPE: ")]
    assert headings == ["digits, RPE: sapd", "digits, RPE: none"]
    lines = [line for line in outcome.out.splitlines() if "linear" in line or "exact, same weights" in line]
    assert [("sapd" in line, "none" in line) for line in lines] == [(True, False)] * 2 + [(False, True)] * 2
    assert (tmp_path / "demo" / "with-rpe" / "result.json").is_file()
