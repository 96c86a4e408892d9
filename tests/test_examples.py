"""Every config in ``examples/`` is valid, complete, and trains to better than a constant answer on its real data."""

from __future__ import annotations

import pathlib

import pytest

import kdlgt
from kdlgt.config import config_from_dict, config_to_dict

pytestmark = pytest.mark.plugins

EXAMPLES = sorted((pathlib.Path(__file__).parent.parent / "examples").glob("*.toml"))
# The share of the most frequent class among the test labels is .32 on Cora, .66 on MUTAG and .10 on digits.
FLOORS = {"cora": 0.45, "mutag": 0.7, "digits": 0.7}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_loads_and_round_trips(path: pathlib.Path) -> None:
    config = kdlgt.load_config(path)
    assert config_from_dict(config_to_dict(config)) == config


@pytest.mark.slow
# A trained head may concentrate beyond what random features follow; the run says so, and this test judges accuracy.
@pytest.mark.filterwarnings("default::kdlgt.errors.ApproximationWarning")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_trains(path: pathlib.Path, tmp_path: pathlib.Path, data_root: pathlib.Path) -> None:
    from kdlgt.train import evaluate_run, train_run

    config = kdlgt.load_config(path)
    result = train_run(config, tmp_path / "run", data_root=data_root)
    assert result.test["accuracy"] > FLOORS[config.data.dataset.name]
    exact = evaluate_run(tmp_path / "run", overrides=["model.attention.mode=exact"], data_root=data_root)
    assert exact["test"]["accuracy"] > FLOORS[config.data.dataset.name]
