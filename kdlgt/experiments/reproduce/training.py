"""From a system and a data set to the config of a run."""

from __future__ import annotations

import pathlib
import shutil
import warnings
from collections.abc import Mapping
from typing import Any

from kdlgt.config import Config, config_from_dict
from kdlgt.config.overrides import set_value
from kdlgt.errors import ApproximationWarning, CheckpointError
from kdlgt.experiments.reproduce.datasets import DataSet, Scale
from kdlgt.experiments.reproduce.outcome import Budget
from kdlgt.experiments.reproduce.sample import SUFFIX, with_sample
from kdlgt.graph.anchors import AnchorWarning
from kdlgt.registry import Registry
from kdlgt.systems import read_system
from kdlgt.train import RunResult, train_run

SMALL: Mapping[str, Any] = {"train.lr": 3e-3, "data.batch_size": 32, "model.hidden": 32, "model.heads": 2}
"""Below the full budget, small models train for a few epochs, with larger and more steps than the paper's."""

SMALL_FEATURES = 32
"""Random features below the full budget."""

GRAPHORMER = "graphormer"


def run_tree(system: str, entry: DataSet, budget: Budget, seed: int) -> dict[str, Any]:
    """The tree of a run's config: the system's file, the data set's settings, the budget's.

    Raises:
        UnknownNameError: no such system.
    """
    small, scale = budget != "full", entry.scale(budget)
    name = entry.name if scale.limit is None else f"{entry.name}{SUFFIX}"
    tree = read_system(system) | {"data": {"dataset": {"name": name}}}
    settings: dict[str, Any] = {**entry.settings, **entry.system_settings.get(system, {})}
    settings |= {"train.seed": seed, "train.epochs": scale.epochs}
    if small:
        settings |= {
            **SMALL,
            **({"model.features.num_features": SMALL_FEATURES} if "features" in tree["model"] else {}),
        }
    for path, value in settings.items():
        tree = set_value(tree, path, value)
    if system == GRAPHORMER and entry.edge_types:
        tree["model"]["rpe"].append({"name": "path_edge", "categories": entry.edge_types})
    return tree


def run_config(tree: Mapping[str, Any], scale: Scale, registry: Registry) -> tuple[Config, Registry]:
    """The config, and the registry that knows its data set: samples are drawn with seed 0, whatever the run's seed."""
    if scale.limit is not None:
        name = str(tree["data"]["dataset"]["name"]).removesuffix(SUFFIX)
        registry = with_sample(registry, name, scale.limit, seed=0)
    return config_from_dict(tree, registry), registry


def train_tree(
    tree: Mapping[str, Any], scale: Scale, run_dir: pathlib.Path, data_root: pathlib.Path | None, registry: Registry
) -> RunResult:
    """Train into a run folder, going on where one is; what the outcome reports anyway is not warned of.

    A folder whose checkpoint does not fit any more, since kdlgt has changed or the file is broken, is made anew.

    Raises:
        KdlgtError: as :func:`kdlgt.train.train_run`.
    """
    config, registry = run_config(tree, scale, registry)
    with warnings.catch_warnings():
        # Collapsed features are a column of the table, and a cap above the size of a molecule is no fault.
        warnings.simplefilter("ignore", ApproximationWarning)
        warnings.simplefilter("ignore", AnchorWarning)
        try:
            return train_run(config, run_dir, data_root=data_root, resume=True, registry=registry)
        except CheckpointError:
            shutil.rmtree(run_dir)
            return train_run(config, run_dir, data_root=data_root, registry=registry)
