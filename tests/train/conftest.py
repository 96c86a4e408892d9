"""Small runs that take well under a second, and need no plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kdlgt.config import Config, config_from_dict
from kdlgt.registry import Registry, load_plugins

MakeConfig = Callable[..., Config]


@pytest.fixture(scope="session")
def registry() -> Registry:
    return load_plugins()


@pytest.fixture(scope="session")
def graphs_config(registry: Registry) -> MakeConfig:
    """Graph level: 40 small cycles, several batches per epoch, dropout on."""

    def make(model: dict[str, Any] | None = None, data: dict[str, Any] | None = None, **train: Any) -> Config:
        tree = {
            "data": {"dataset": {"name": "distance", "graphs": 40, "nodes": 8}, "batch_size": 4, **(data or {})},
            "model": {
                "hidden": 8,
                "heads": 2,
                "layers": 1,
                "dropout": 0.2,
                "features": {"name": "favor+", "num_features": 8},
            },
            "train": {"epochs": 3, "lr": 1e-2, "device": "cpu", **train},
        }
        tree["model"] |= model or {}
        return config_from_dict(tree, registry)

    return make


@pytest.fixture(scope="session")
def karate_config(registry: Registry) -> MakeConfig:
    """Node level: the karate club."""

    def make(model: dict[str, Any] | None = None, **train: Any) -> Config:
        tree = {
            "data": {"dataset": "karate"},
            "model": {"hidden": 8, "heads": 2, "layers": 1, "dropout": 0.2, **(model or {})},
            "train": {"epochs": 4, "lr": 1e-2, "device": "cpu", **train},
        }
        return config_from_dict(tree, registry)

    return make
