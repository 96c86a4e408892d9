"""From a system and a data set to a config."""

from __future__ import annotations

from typing import get_args

import pytest

from kdlgt.errors import UnknownNameError
from kdlgt.experiments.reproduce.datasets import DATA_SETS, chosen_data_sets, data_set
from kdlgt.experiments.reproduce.outcome import Budget
from kdlgt.experiments.reproduce.training import run_config, run_tree
from kdlgt.registry import load_plugins
from kdlgt.systems import system_names

pytestmark = pytest.mark.plugins


@pytest.mark.parametrize("system", system_names())
@pytest.mark.parametrize("budget", get_args(Budget))
def test_every_cell_of_the_table_is_a_config(system: str, budget: Budget) -> None:
    registry = load_plugins()
    for entry in DATA_SETS:
        scale = entry.scale(budget)
        config, _ = run_config(run_tree(system, entry, budget, 3), scale, registry)
        assert config.train.seed == 3
        assert config.data.dataset.name == (entry.name if budget == "full" else f"{entry.name}-sample")
        assert config.train.epochs == scale.epochs


def test_the_full_budget_has_the_papers_settings() -> None:
    config, _ = run_config(run_tree("lsat", data_set("zinc"), "full", 0), data_set("zinc").full, load_plugins())
    train = config.train
    assert (train.optimizer, train.lr, train.betas, train.eps, train.schedule) == (
        "adam",
        1e-4,
        (0.99, 0.999),
        1e-7,
        "linear",
    )
    assert config.data.batch_size == 128


def test_graphormer_encodes_the_edges_of_paths_where_an_edge_has_one_type() -> None:
    names = {
        data: [rpe["name"] for rpe in run_tree("graphormer", data_set(data), "small", 0)["model"]["rpe"]]
        for data in ("mutag", "nci1")
    }
    assert names == {"mutag": ["spd", "path_edge"], "nci1": ["spd"]}


def test_settings_of_a_data_set_reach_the_config() -> None:
    tree = run_tree("lsat", data_set("cora"), "small", 0)
    assert tree["model"]["rpe"][0]["gnn"] == "GCN"
    assert tree["model"]["dropout"] == 0.5
    assert "rpe" not in run_tree("gcn", data_set("cora"), "small", 0)["model"]


def test_data_sets_by_name() -> None:
    assert [entry.name for entry in chosen_data_sets(["mutag", "cora"])] == ["mutag", "cora"]
    assert len(chosen_data_sets([])) == 10
    with pytest.raises(UnknownNameError, match="Did you mean 'citeseer'"):
        chosen_data_sets(["citeser"])
