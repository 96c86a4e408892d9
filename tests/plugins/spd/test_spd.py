"""Shortest path encoding: entries, exactness on all pairs, and how good each approximation is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data

from kdlgt.errors import ArgumentError, GraphError
from kdlgt.graph import Graph, Prepare
from kdlgt.graph.generate import grid, path, random_regular
from kdlgt.rpe.protocol import all_pairs
from kdlgt_spd import SPDRPE, ApproximationError, NearPairs, SPDOptions, approximation_error, spd_reference

pytestmark = pytest.mark.plugins


def _prepared(rpe: SPDRPE, data: Data) -> Data:
    prepared: Data = Prepare(rpe.structures)(data)
    return prepared


def _error(data: Data, **options: Any) -> ApproximationError:
    rpe = SPDRPE(1, SPDOptions(**({"decay": 1.0, "max_distance": 40} | options))).double()
    return approximation_error(rpe, _prepared(rpe, data))


def test_farther_and_unreachable_have_entries_that_no_distance_reaches() -> None:
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    data = Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=6)
    rpe = SPDRPE(1, SPDOptions(max_distance=2))
    with torch.no_grad():
        rpe.table.copy_(torch.arange(5.0)[:, None])
    first_row = rpe.exact(_prepared(rpe, data)).to_dense()[0, 0]
    assert first_row.tolist() == [0.0, 1.0, 2.0, 3.0, 3.0, 4.0]


@pytest.mark.parametrize("limit", [0, 4, 100])
def test_exact_does_not_depend_on_what_was_prepared(limit: int) -> None:
    rpe = SPDRPE(2, SPDOptions(max_distance=3, exact_limit=limit)).double()
    graphs = [path(3), grid(3, 3), path(4), random_regular(12, 3, 0)]
    whole = rpe.exact(Batch.from_data_list([_prepared(rpe, graph.clone()) for graph in graphs])).to_dense()
    start = 0
    for graph in graphs:
        end = start + int(graph.num_nodes or 0)
        torch.testing.assert_close(whole[:, start:end, start:end], spd_reference(rpe, graph))
        start = end


def test_bias_on_some_pairs_is_that_of_all_pairs() -> None:
    rpe = SPDRPE(1, SPDOptions(exact_limit=5))
    batch = Batch.from_data_list([_prepared(rpe, path(4)), _prepared(rpe, grid(3, 3))])
    pairs = all_pairs(batch.ptr)
    chosen = torch.randperm(pairs.size(1), generator=torch.Generator().manual_seed(0))[:20]
    torch.testing.assert_close(rpe.pair_bias(batch, pairs[:, chosen]), rpe.pair_bias(batch, pairs)[chosen])


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_near_pairs_are_all_pairs_within_reach_once(hops: int) -> None:
    data = grid(4, 4)
    fields = NearPairs(hops).compute(Graph.from_data(data))
    places = torch.arange(16)
    distance = (places[:, None] // 4 - places // 4).abs() + (places[:, None] % 4 - places % 4).abs()
    dense = torch.full((16, 16), -1)
    dense[fields["pair_index"][0], fields["pair_index"][1]] = fields["pair_hops"]
    assert fields["pair_index"].size(1) == int((distance <= hops).sum())
    assert torch.equal(dense, torch.where(distance <= hops, distance, -1))


@pytest.mark.parametrize("far", ["sapd", "nystrom", "eigen", "constant"])
def test_local_is_exact_within_its_hops(far: Any) -> None:
    rpe = SPDRPE(2, SPDOptions(approximation="local", far=far, hops=2, landmarks=4, rank=4)).double()
    batch = _prepared(rpe, grid(4, 5))
    near = rpe.exact(batch).to_dense()[0] >= -2 * 0.5
    torch.testing.assert_close(rpe(batch).to_dense()[:, near], rpe.exact(batch).to_dense()[:, near])


@pytest.mark.parametrize("approximation", ["nystrom", "eigen"])
def test_full_width_is_exact(approximation: Any) -> None:
    error = _error(grid(4, 5), approximation=approximation, landmarks=20, rank=20, ridge=1e-7)
    assert float(error.largest) < 1e-6


@pytest.mark.parametrize("approximation", ["nystrom", "eigen"])
def test_the_error_falls_with_the_width(approximation: Any) -> None:
    errors = [
        float(_error(path(60), approximation=approximation, landmarks=width, rank=width).total_variation)
        for width in (4, 8, 32)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.6 * errors[0]


def test_sapd_is_the_soft_shortest_path_through_landmarks() -> None:
    rpe = SPDRPE(1, SPDOptions(landmarks=1, decay=0.7, max_distance=100)).double()
    star_like = path(9)
    batch = _prepared(rpe, star_like)
    landmark = int(rpe.far.structures[0].compute(Graph.from_data(path(9)))["hops"][:, 0].argmin())
    hops = (torch.arange(9) - landmark).abs().double()
    torch.testing.assert_close(rpe(batch).to_dense()[0], -0.7 * (hops[:, None] + hops[None, :]))


def test_local_two_is_close_on_the_grid() -> None:
    assert float(_error(grid(16, 16), approximation="local", hops=2).total_variation) < 0.15


def test_each_step_of_local_helps_on_the_grid() -> None:
    errors = [float(_error(grid(12, 12)).total_variation)]
    errors += [float(_error(grid(12, 12), approximation="local", hops=hops).total_variation) for hops in (1, 2)]
    assert errors == sorted(errors, reverse=True)


def test_all_distances_are_refused_on_a_large_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    rpe = SPDRPE(1, SPDOptions(approximation="eigen"))
    with pytest.raises(GraphError, match="nystrom"):
        Prepare(rpe.structures)(path(10_001))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_distance": -1}, "max_distance = -1"),
        ({"max_distance": 300}, "max_distance = 300"),
        ({"landmarks": 0}, "count = 0"),
        ({"approximation": "local", "hops": -1}, "hops = -1"),
    ],
)
def test_options_out_of_range_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        SPDRPE(2, SPDOptions(**options))
