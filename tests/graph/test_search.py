"""Breadth-first search: every method gives the distances that relaxation gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kdlgt.errors import ArgumentError
from kdlgt.graph import Graph, generate, kernels, search
from kdlgt.graph.search import NearestSource, breadth_first_distances

AllPairs = Callable[[Graph], NDArray[np.float64]]


def nearest_of(distance: NDArray[np.float64], chosen: list[int]) -> NDArray[np.float64]:
    nearest: NDArray[np.float64] = distance[:, chosen].min(1, initial=np.inf)
    return nearest


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_distances_from_sets(data: st.DataObject, any_graph: Any, all_pairs: AllPairs, method: Any) -> None:
    graph = data.draw(any_graph)
    node = st.integers(0, graph.num_nodes - 1)
    sets = data.draw(st.lists(st.lists(node, max_size=4), max_size=5))
    found = breadth_first_distances(graph.adjacency, sets, method=method)
    expected = np.stack([nearest_of(all_pairs(graph), chosen) for chosen in sets] or [np.empty(graph.num_nodes)], 1)
    assert found.dtype == np.int32
    assert found.shape == (graph.num_nodes, len(sets))
    np.testing.assert_array_equal(found, np.where(np.isinf(expected), -1, expected)[:, : len(sets)])


def test_more_slots_than_bits_of_a_mask(all_pairs: AllPairs, method: Any) -> None:
    graph = Graph.from_data(generate.random_regular(150, 3, seed=0))
    sets = [[slot, (slot * 7 + 1) % 150] for slot in range(2 * kernels.SLOTS_PER_SWEEP + 3)]
    expected = np.stack([nearest_of(all_pairs(graph), chosen) for chosen in sets], 1)
    np.testing.assert_array_equal(breadth_first_distances(graph.adjacency, sets, method=method), expected)


def test_distances_beyond_16_bits(method: Any) -> None:
    graph = Graph.from_data(generate.path(70_000))
    found = breadth_first_distances(graph.adjacency, [[0], [69_999]], method=method)
    np.testing.assert_array_equal(found[:, 0], np.arange(70_000))
    np.testing.assert_array_equal(found[:, 1], np.arange(70_000)[::-1])


def test_method_follows_size(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (Graph.from_data(generate.path(n)).adjacency for n in (10, 200_000))
    assert search.resolve_method(small) == "python"
    monkeypatch.setattr(kernels, "numba_installed", lambda: True)
    assert search.resolve_method(large) == "numba"
    monkeypatch.setattr(kernels, "numba_installed", lambda: False)
    assert search.resolve_method(large) == "scipy"
    with pytest.raises(ArgumentError, match=r"numba.*not installed.*kdlgt\[fast\]"):
        search.resolve_method(small, "numba")


@pytest.mark.parametrize(
    ("sources", "method", "message"),
    [
        ([[0], [3]], "auto", r"sources\[1\] holds nodes 3\.\.3; the graph has nodes 0\.\.2"),
        ([[-1]], "auto", r"sources\[0\] holds nodes -1\.\.-1; the graph has nodes 0\.\.2"),
        ([[0]], "bfs", r"method = 'bfs'; allowed: auto, python, scipy, numba"),
    ],
)
def test_wrong_arguments(sources: list[list[int]], method: Any, message: str) -> None:
    graph = Graph.from_data(generate.path(3))
    with pytest.raises(ArgumentError, match=message):
        breadth_first_distances(graph.adjacency, sources, method=method)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_nearest_of_a_growing_set(data: st.DataObject, any_graph: Any, all_pairs: AllPairs, method: Any) -> None:
    """``add`` keeps the truncated distance in spite of pruning, and ``gain`` foretells what ``add`` returns."""
    graph = data.draw(any_graph)
    limit = data.draw(st.integers(0, 5))
    added = data.draw(st.lists(st.integers(0, graph.num_nodes - 1), max_size=8))
    distance = all_pairs(graph)
    nearest = NearestSource(graph.adjacency, limit, method=method)
    limit = min(limit, graph.num_nodes)
    for count, node in enumerate(added, start=1):
        before = np.minimum(nearest_of(distance, added[: count - 1]), limit + 1)
        after = np.minimum(nearest_of(distance, added[:count]), limit + 1)
        fresh = int((before > limit).sum() - (after > limit).sum())
        assert [nearest.gain(node), nearest.gain(node), nearest.add(np.array([node]))] == [fresh] * 3
        np.testing.assert_array_equal(nearest.nearest, after)
        assert [nearest.reached(i) for i in range(graph.num_nodes)] == (after <= limit).tolist()


def test_pruned_balls_cost_k_visits_per_edge() -> None:
    """2,000 overlapping balls around one hub: each edge is read at most k times in each direction."""

    class Counting(list[int]):
        visits = 0

        def __getitem__(self, place: Any) -> Any:
            part = super().__getitem__(place)
            Counting.visits += len(part) if isinstance(place, slice) else 0
            return part

    adjacency = Graph.from_data(generate.star(2_000)).adjacency
    nearest = NearestSource(adjacency, 3, method="python")
    nearest._indices = Counting(nearest._indices)
    for node in range(adjacency.shape[0] - 1, -1, -1):
        nearest.add(np.array([node]))
    assert 0 < Counting.visits <= 4 * adjacency.nnz
