"""Landmarks: spread out, no duplicates, every distance right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from kdlgt.errors import ArgumentError
from kdlgt.graph import Graph
from kdlgt.graph.generate import grid, path, star
from kdlgt.graph.landmarks import Landmarks, farthest_first
from kdlgt.graph.search import breadth_first_distances
from kdlgt.testing.graphs import asymmetric_tree


@pytest.mark.parametrize("data", [grid(5, 6), path(40), star(30)])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_covering_radius_is_at_most_the_distance_between_landmarks(data: Data, count: int) -> None:
    graph = Graph.from_data(data)
    nodes, hops = farthest_first(graph, count)
    assert len(set(nodes.tolist())) == count
    np.testing.assert_array_equal(hops, breadth_first_distances(graph.adjacency, [[node] for node in nodes]))
    among = hops[nodes][~np.eye(count, dtype=bool)]
    assert hops.min(axis=1).max() <= among.min(initial=1000), "so the radius is within twice the best (Gonzalez)"


def test_components_share_the_landmarks_by_size() -> None:
    edges = torch.tensor([[0, 1, 2, 3, 4, 6], [1, 2, 3, 4, 5, 7]])
    graph = Graph.from_data(Data(edge_index=edges, num_nodes=9), symmetrise=True)
    nodes, hops = farthest_first(graph, 4)
    assert np.bincount(graph.component[nodes]).tolist() == [3, 1]
    assert (hops[8] == -1).all()


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 14))
def test_the_choice_follows_the_nodes_where_refinement_tells_them_apart(seed: int, count: int) -> None:
    data = asymmetric_tree(2)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(data.num_nodes))
    place = torch.argsort(order)
    moved = Data(edge_index=place[data.edge_index], num_nodes=data.num_nodes)
    plain, _ = farthest_first(Graph.from_data(data), count)
    seen, _ = farthest_first(Graph.from_data(moved), count)
    assert order[seen].tolist() == plain.tolist()


def test_slots_without_a_landmark_are_marked() -> None:
    fields = Landmarks(5).compute(Graph.from_data(path(3)))
    assert fields["hops"].shape == (3, 5)
    assert fields["between"].shape == (1, 5, 5)
    assert (fields["hops"][:, 3:] == -2).all()
    assert (fields["between"][0, :, 3:] == -2).all()
    assert (fields["hops"][:, :3] >= 0).all()


def test_count_must_be_positive() -> None:
    with pytest.raises(ArgumentError, match="count = 0"):
        Landmarks(0)
