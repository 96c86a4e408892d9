"""Colour refinement: a function of structure alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from kdlgt.graph import Graph, generate
from kdlgt.graph.refinement import MAX_ROUNDS, mix, structural_colours


def relabelled(graph: Graph, order: list[int]) -> Graph:
    """Node i of the result is node order[i] of ``graph``."""
    position = torch.from_numpy(np.argsort(order))
    return Graph.from_data(Data(edge_index=position[graph.data.edge_index], num_nodes=graph.num_nodes))


@settings(deadline=None)
@given(data=st.data())
def test_relabelling_permutes_colours(data: st.DataObject, any_graph: Any) -> None:
    graph = data.draw(any_graph)
    order = data.draw(st.permutations(range(graph.num_nodes)))
    np.testing.assert_array_equal(structural_colours(relabelled(graph, order)), structural_colours(graph)[order])


def test_tells_apart_what_structure_tells_apart() -> None:
    path = structural_colours(Graph.from_data(generate.path(9)))
    assert np.unique(path).size == 5
    np.testing.assert_array_equal(path, path[::-1])
    regular = structural_colours(Graph.from_data(generate.random_regular(40, 3, seed=1)))
    assert np.unique(regular).size == 1


def test_stops_after_its_rounds() -> None:
    path = structural_colours(Graph.from_data(generate.path(100)))
    assert np.unique(path).size == MAX_ROUNDS + 2


def test_mix_is_one_to_one_on_a_sample() -> None:
    assert np.unique(mix(np.arange(100_000, dtype=np.uint64))).size == 100_000
