from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.utils import degree

from kdlgt.errors import ArgumentError
from kdlgt.graph import Graph

Load = Any


def test_regular_graphs_are_regular_with_learnable_balanced_labels(load: Load) -> None:
    bundle = load("regular", options={"nodes": 2000, "seed": 3})
    graph = bundle.graph
    assert (degree(graph.edge_index[0], 2000) == 6).all()
    assert Graph.from_data(graph).adjacency.nnz == 12_000
    assert (bundle.in_features, bundle.out_features) == (16, 5)
    assert torch.bincount(graph.y, minlength=5).min() > 100
    again = load("regular", options={"nodes": 2000, "seed": 3}).graph
    assert torch.equal(graph.edge_index, again.edge_index)
    assert torch.equal(graph.y, again.y)


def test_labels_of_regular_graphs_depend_on_the_neighbours(load: Load) -> None:
    graph = load("regular", options={"nodes": 3000}).graph
    around = torch.zeros_like(graph.x).index_add(0, graph.edge_index[1], graph.x[graph.edge_index[0]])
    targets = torch.nn.functional.one_hot(graph.y).float()
    accuracy = [
        float(((inputs @ torch.linalg.lstsq(inputs, targets).solution).argmax(1) == graph.y).float().mean())
        for inputs in (graph.x, graph.x + around)
    ]
    assert accuracy[0] < 0.5
    assert accuracy[1] > 0.7


def test_the_distance_task_is_what_it_says(load: Load) -> None:
    bundle = load("distance", options={"graphs": 400, "nodes": 20, "classes": 2})
    assert bundle.classes == ("1..5", "6..10")
    for graph in bundle.graphs:
        first, second = graph.x.flatten().nonzero().flatten().tolist()
        apart = min(second - first, 20 - second + first)
        assert int(graph.y) == int(apart > 5)
    assert 160 < sum(int(graph.y) for graph in bundle.graphs) < 240


def test_nothing_but_distance_tells_the_classes_apart(load: Load) -> None:
    """Equal multisets of features and equal degrees in all graphs: what a model without an encoding sees."""
    for graph in load("distance", options={"graphs": 50}).graphs:
        assert int(graph.x.sum()) == 2
        assert graph.num_nodes == 32
        assert (degree(graph.edge_index[0]) == 2).all()


def test_distances_answer_the_distance_task(load: Load) -> None:
    """One head of exact attention with the bias -d is enough: the weight between the marked nodes tells the class."""
    bundle = load("distance", options={"graphs": 200})
    apart = (torch.arange(32)[:, None] - torch.arange(32)).abs()
    attention = torch.softmax(-torch.minimum(apart, 32 - apart).double(), dim=1)
    weight = torch.stack([attention[tuple(graph.x.flatten().nonzero().flatten())] for graph in bundle.graphs])
    label = torch.cat([graph.y for graph in bundle.graphs])
    assert weight[label == 0].min() > weight[label == 1].max()


@pytest.mark.parametrize(
    ("name", "options"),
    [("distance", {"nodes": 5, "classes": 3}), ("distance", {"graphs": 0}), ("regular", {"nodes": 5, "degree": 3})],
)
def test_impossible_options_are_refused(load: Load, name: str, options: dict[str, int]) -> None:
    with pytest.raises(ArgumentError):
        load(name, options=options)
