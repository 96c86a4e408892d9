"""Anchors: a dominating set as the plain greedy algorithm finds it, in every component, under any cap."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch_geometric.data import Data

from kdlgt.errors import ArgumentError
from kdlgt.graph import Graph, generate
from kdlgt.graph.anchors import AnchorWarning, anchor_distances, choose_anchors, visiting_order

AllPairs = Callable[[Graph], NDArray[np.float64]]
ORDERS = ["degree", "gain"]


def unpruned(graph: Graph, distance: NDArray[np.float64], k: int, order: str) -> list[int]:
    """The greedy dominating set by whole balls and full scans."""
    balls = distance <= k
    visits = visiting_order(graph).tolist()
    uncovered = np.ones(graph.num_nodes, bool)
    chosen: list[int] = []
    while uncovered.any():
        if order == "degree":
            node = next(node for node in visits if uncovered[node])
        else:
            node = max(visits, key=lambda node: (balls[node] & uncovered).sum())
        chosen.append(node)
        uncovered &= ~balls[node]
    return chosen


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_equals_the_unpruned_greedy_algorithm(
    data: st.DataObject, any_graph: Any, all_pairs: AllPairs, method: Any, order: Any
) -> None:
    graph, k = data.draw(any_graph), data.draw(st.integers(1, 4))
    found = choose_anchors(graph, k, order=order, method=method)
    assert sorted(found.nodes.tolist()) == sorted(unpruned(graph, all_pairs(graph), k, order))


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_structure_of_slots_and_report(
    data: st.DataObject, any_graph: Any, all_pairs: AllPairs, method: Any, order: Any
) -> None:
    """Within each component slots count up from 0 to the cap at most; radius and coverage are what they say."""
    graph, k = data.draw(any_graph), data.draw(st.integers(1, 3))
    cap = data.draw(st.integers(1, graph.num_nodes))
    found = anchor_distances(graph, k, cap, order, width=cap, method=method)
    anchors, distance = found.anchors, all_pairs(graph)
    assert np.unique(anchors.nodes).size == anchors.nodes.size == found.report.anchors
    for component in range(graph.num_components):
        slots = anchors.slot[graph.component[anchors.nodes] == component]
        assert sorted(slots.tolist()) == list(range(len(slots)))
        assert 1 <= len(slots) <= cap
    expected = np.full((graph.num_nodes, cap), -1.0)
    for node, slot in zip(anchors.nodes, anchors.slot, strict=True):
        near = np.isfinite(distance[node])
        expected[near, slot] = distance[node, near]
    np.testing.assert_array_equal(found.distance, expected)
    nearest = distance[:, anchors.nodes].min(1)
    assert found.report.radius == nearest.max()
    assert found.report.covered == pytest.approx((nearest <= k).mean())
    assert found.report.slots == anchors.slot.max() + 1


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_gap_to_the_shortest_path(data: st.DataObject, any_graph: Any, all_pairs: AllPairs, order: Any) -> None:
    """0 <= min_a [d(i, a) + d(a, j)] - d(i, j) <= 2k within a component; 2R under a cap, R the covering radius."""
    graph, k = data.draw(any_graph), data.draw(st.integers(1, 3))
    cap = data.draw(st.none() | st.integers(1, graph.num_nodes))
    found = anchor_distances(graph, k, cap, order)
    to_anchor = np.where(found.distance < 0, np.inf, found.distance)
    through = (to_anchor[:, None, :] + to_anchor[None, :, :]).min(2)
    shortest = all_pairs(graph)
    connected = np.isfinite(shortest)
    gap = through[connected] - shortest[connected]
    assert gap.min() >= 0
    assert gap.max() <= 2 * found.report.radius
    if cap is None:
        assert found.report.radius <= k
        assert found.report.covered == 1.0


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_gap_of_twice_k_is_attained(make_graph: Any, k: int) -> None:
    """A spider with legs of length k: its centre is the only anchor, and a foot is k away from it."""
    legs = [(0 if step == 0 else leg * k + step, leg * k + step + 1) for leg in range(3) for step in range(k)]
    found = anchor_distances(make_graph(3 * k + 1, legs), k)
    assert found.anchors.nodes.tolist() == [0]
    foot = found.distance[k]
    assert 2 * foot.min() == 2 * k


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_star_clique_and_path(order: Any, k: int) -> None:
    star = anchor_distances(Graph.from_data(generate.star(1_001)), k, order=order)
    assert (star.report.anchors, star.report.covered) == (1, 1.0)
    clique = anchor_distances(Graph.from_data(generate.clique(200)), k, order=order)
    assert (clique.report.anchors, clique.report.radius) == (1, 1)
    path = anchor_distances(Graph.from_data(generate.path(2_000)), k, order=order).report
    assert 2_000 / (2 * k + 1) <= path.anchors <= 2_000 / (k + 1) + 1
    assert path.radius == k


def test_gain_needs_fewer_on_a_scale_free_graph() -> None:
    graph = Graph.from_data(generate.barabasi_albert(3_000, 3, seed=0))
    by_degree, by_gain = (anchor_distances(graph, 1, order=order).report.anchors for order in ("degree", "gain"))
    assert by_gain < 0.8 * by_degree


def test_density_on_a_regular_graph() -> None:
    """The share of anchors on random 6-regular graphs: 28 % at k = 1, 7.7 % at k = 2, 2.4 % at k = 3."""
    graph = Graph.from_data(generate.random_regular(20_000, 6, seed=0))
    shares = [anchor_distances(graph, k, 1).anchors for k in (1,)]
    assert shares[0].nodes.size == 1
    counts = [choose_anchors(graph, k).nodes.size / 20_000 for k in (1, 2, 3)]
    np.testing.assert_allclose(counts, [0.28, 0.077, 0.024], rtol=0.07)


def test_capped_anchors_cover_nearly_what_greedy_coverage_covers(all_pairs: AllPairs) -> None:
    """Against re-counting the coverage after each choice among the same anchors."""
    graph = Graph.from_data(generate.barabasi_albert(600, 2, seed=3))
    balls = all_pairs(graph) <= 1
    candidates = choose_anchors(graph, 1).nodes.tolist()
    covered = np.zeros(600, bool)
    for _ in range(10):
        covered |= balls[max(candidates, key=lambda node: int((balls[node] & ~covered).sum()))]
    assert anchor_distances(graph, 1, 10).report.covered >= 0.95 * covered.mean()


def test_capped_anchors_spread() -> None:
    """On a path all balls are equal, so 8 anchors are those of a farthest-first traversal, near the best."""
    report = anchor_distances(Graph.from_data(generate.path(2_000)), 2, 8).report
    assert report.radius <= 2 * (2_000 / 16) + 5


def test_no_edges_and_several_components(make_graph: Any) -> None:
    alone = anchor_distances(make_graph(6, []), 2, 3)
    assert alone.distance.tolist() == [[0]] * 6
    assert (alone.report.anchors, alone.report.slots, alone.report.radius) == (6, 1, 0)
    mixed = anchor_distances(make_graph(6, [(0, 1), (1, 2), (4, 5)]), 1, 1, width=2)
    assert mixed.distance[:4].tolist() == [[1, -1], [0, -1], [1, -1], [0, -1]]
    assert sorted(mixed.distance[4:, 0].tolist()) == [0, 1]


def test_anchors_follow_a_relabelling_where_structure_tells_nodes_apart(make_graph: Any) -> None:
    """An asymmetric tree: its anchors are the same nodes under every numbering."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (2, 6), (6, 7), (3, 8), (5, 9), (9, 10), (10, 11), (7, 12)]
    generator = np.random.default_rng(0)
    original = choose_anchors(make_graph(13, edges), 1, 3).nodes.tolist()
    for _ in range(20):
        name = generator.permutation(13)
        renamed = make_graph(13, [(int(name[u]), int(name[v])) for u, v in edges])
        assert choose_anchors(renamed, 1, 3).nodes.tolist() == name[original].tolist()


def test_anchors_are_equivariant_in_law_on_a_regular_graph() -> None:
    """Over random numberings of a cycle, every node becomes an anchor equally often, whatever the given numbering."""
    generator = np.random.default_rng(0)
    edges = generate.cycle(12).edge_index
    counts = np.zeros(12)
    for _ in range(500):
        name = generator.permutation(12)
        graph = Graph.from_data(Data(edge_index=torch.from_numpy(name)[edges], num_nodes=12))
        counts[np.argsort(name)[choose_anchors(graph, 1).nodes]] += 1
    np.testing.assert_allclose(counts / counts.mean(), 1.0, atol=0.25)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": -1}, r"k = -1; allowed: an integer >= 1"),
        ({"k": 0}, r"k = 0; allowed: an integer >= 1"),
        ({"k": 2, "max_anchors": 0}, r"max_anchors = 0; allowed: an integer >= 1"),
        ({"k": 2, "order": "best"}, r"order = 'best'; allowed: degree, gain"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        choose_anchors(Graph.from_data(generate.path(3)), **arguments)


def test_more_anchors_than_nodes_warns_once_and_clamps() -> None:
    graph = Graph.from_data(generate.path(3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = anchor_distances(graph, 1, 16, width=16)
    assert [(entry.category, "max_anchors = 16" in str(entry.message)) for entry in caught] == [(AnchorWarning, True)]
    assert np.unique(found.anchors.nodes).size == found.report.anchors <= 3
    assert found.distance.shape == (3, 16)


@pytest.mark.parametrize("cap", [1, 3, 32, None])
def test_no_warning_up_to_the_number_of_nodes_or_for_the_default_cap(cap: int | None) -> None:
    assert anchor_distances(Graph.from_data(generate.path(3)), 1, cap).report.anchors == 1
