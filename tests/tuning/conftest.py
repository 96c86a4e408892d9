"""A config that trains in a fraction of a second, and jobs over it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from kdlgt.registry import Registry, load_plugins
from kdlgt.train.metrics import Monitor
from kdlgt_tuning.objective import Objective
from kdlgt_tuning.outcome import TrialOutcome
from kdlgt_tuning.space import Space, check_space, parse_space
from kdlgt_tuning.trial import Job

KARATE = """
[data]
dataset = "karate"

[model]
hidden = 8
layers = 1
heads = 2
rpe = ["sapd"]

[model.features]
name = "favor+"
num_features = 8

[train]
epochs = {epochs}
lr = 1e-2
device = "cpu"
"""

MakeConfigFile = Callable[..., pathlib.Path]
MakeJob = Callable[..., Job]
MakeOutcome = Callable[..., TrialOutcome]


@pytest.fixture(scope="session")
def registry() -> Registry:
    return load_plugins()


@pytest.fixture
def config_file(tmp_path: pathlib.Path) -> MakeConfigFile:
    def make(epochs: int = 3, extra: str = "") -> pathlib.Path:
        path = tmp_path / "karate.toml"
        path.write_text(KARATE.format(epochs=epochs) + extra)
        return path

    return make


@pytest.fixture(scope="session")
def tree() -> dict[str, Any]:
    return {
        "data": {"dataset": "karate", "prepare_workers": 1},
        "model": {
            "hidden": 8,
            "layers": 1,
            "heads": 2,
            "rpe": ["sapd"],
            "features": {"name": "favor+", "num_features": 8},
        },
        "train": {"epochs": 3, "lr": 1e-2, "device": "cpu", "threads": 1},
    }


@pytest.fixture(scope="session")
def objective() -> Objective:
    return Objective(metric="accuracy", mode="max", monitor=Monitor("accuracy", True))


@pytest.fixture(scope="session")
def make_job(tree: dict[str, Any], registry: Registry, objective: Objective) -> MakeJob:
    def make(space: dict[str, Any] | None = None, **changes: Any) -> Job:
        given = space or {"model": {"rpe": {"0": {"k": {"int": [1, 3]}}}, "dropout": {"float": [0.0, 0.5]}}}
        checked = check_space(parse_space(given), tree, registry)
        return Job(**{"tree": tree, "space": checked, "objective": objective, **changes})

    return make


@pytest.fixture(scope="session")
def space(make_job: MakeJob) -> Space:
    return make_job(
        {
            "model.rpe.0.max_anchors": {"choice": [8, 16]},
            "model.features.num_features": {"log_int": [16, 64]},
            "model.norm": {"choice": ["layer", "rms"]},
        }
    ).space


@pytest.fixture(scope="session")
def outcome() -> MakeOutcome:
    def make(name: str, score: float, seconds: float = 1.0, status: Any = "finished", **changes: Any) -> TrialOutcome:
        sample = {"model.rpe.0.max_anchors": 8, "model.features.num_features": 32, "model.norm": "rms"}
        given = {"sample": sample, "values": sample, "epoch": 3, "best_epoch": 2, "seconds": 3 * seconds, **changes}
        return TrialOutcome(name=name, score=score, seconds_per_epoch=seconds, status=status, **given)

    return make
