"""Samples of data sets."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import torch

from kdlgt.config import config_from_dict
from kdlgt.data import load_data
from kdlgt.data.bundle import Split
from kdlgt.errors import UnknownNameError
from kdlgt.experiments.reproduce.sample import _graphs, _nodes, with_sample
from kdlgt.registry import load_plugins


def test_graphs_are_drawn_by_seed() -> None:
    raw = load_plugins().dataset("distance", graphs=50, nodes=8)
    drawn = [_graphs(raw, 12, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    labels = [[int(graph.x.flatten().nonzero()[0]) for graph in part.graphs] for part in drawn]
    assert [len(part.graphs) for part in drawn] == [12, 12, 12]
    assert labels[0] == labels[1] != labels[2]


def test_a_public_split_keeps_its_parts() -> None:
    raw = load_plugins().dataset("distance", graphs=50, nodes=8)
    for number, graph in enumerate(raw.graphs):
        graph.number = number
    split = Split(train=torch.arange(30), val=torch.arange(30, 40), test=torch.arange(40, 50))
    part = _graphs(attrs.evolve(raw, split=split), 20, np.random.default_rng(0))
    assert part.split is not None
    assert [len(rows) for rows in part.split.parts.values()] == [12, 4, 4]
    for name, low, high in (("train", 0, 30), ("val", 30, 40), ("test", 40, 50)):
        assert all(low <= part.graphs[row].number < high for row in part.split.parts[name].tolist())


def test_nodes_are_a_ball_with_its_edges_and_labels() -> None:
    raw = load_plugins().dataset("karate")
    split = Split(train=torch.tensor([0]), val=torch.tensor([1, 16]), test=torch.tensor([2, 33]))
    part = _nodes(attrs.evolve(raw, split=split), 17, np.random.default_rng(0))
    graph = part.graphs[0]
    assert graph.num_nodes == 17 == len(graph.y) == len(graph.x)
    original = graph.x.argmax(1)
    assert 0 in original
    assert torch.equal(graph.y, raw.graphs[0].y[original])
    assert part.split is not None
    assert original[part.split.train].tolist() == [0]
    assert set(original[part.split.val].tolist()) <= {1, 16}
    pairs = set(zip(*raw.graphs[0].edge_index.tolist(), strict=True))
    assert set(zip(*original[graph.edge_index].tolist(), strict=True)) <= pairs


def test_a_small_data_set_stays_whole() -> None:
    raw = load_plugins().dataset("karate")
    assert _nodes(raw, 34, np.random.default_rng(0)) is raw


def test_a_sample_loads_as_a_data_set() -> None:
    registry = with_sample(load_plugins(), "regular", 40, seed=0)
    config = config_from_dict({"data": {"dataset": {"name": "regular-sample", "nodes": 64}, "cache": False}}, registry)
    with pytest.raises(UnknownNameError):
        with_sample(registry, "digit", 40, seed=0)
    assert load_data(config.data, registry=registry).graph.num_nodes == 40
