"""Walk kernels: the closed form, unbiasedness over seeds, buckets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from kdlgt.errors import ArgumentError
from kdlgt.graph import Graph, Prepare
from kdlgt.graph.generate import barabasi_albert, grid, path, random_regular
from kdlgt_walk import GRFRPE, GRFOptions, WalkFeatures, WalkOptions, WalkRPE, bucket_of_node, grf_reference

pytestmark = pytest.mark.plugins


def test_two_nodes_by_hand() -> None:
    """One step on a single edge: f_0 = (1, discount), f_1 = (discount, 1)."""
    rpe = WalkRPE(1, WalkOptions(length=1, discount=0.5)).double()
    kernel = rpe(Prepare(rpe.structures)(path(2))).to_dense().exp()[0]
    torch.testing.assert_close(kernel, torch.tensor([[1.0, 0.8], [0.8, 1.0]], dtype=torch.float64))


def test_a_node_has_kernel_one_with_itself_and_less_with_others() -> None:
    rpe = WalkRPE(2, WalkOptions(length=3)).double()
    kernel = rpe(Prepare(rpe.structures)(grid(4, 5))).to_dense().exp()
    torch.testing.assert_close(kernel.diagonal(dim1=1, dim2=2), torch.ones(2, 20, dtype=torch.float64))
    assert bool((kernel <= 1 + 1e-12).all())


def test_the_kernel_falls_with_distance() -> None:
    rpe = WalkRPE(1, WalkOptions(length=6)).double()
    kernel = rpe(Prepare(rpe.structures)(path(30))).to_dense().exp()[0, 15, 15:27]
    assert bool((kernel.diff() < 0).all())


@pytest.mark.parametrize("columns", ["cells", "hash"])
def test_buckets_are_within_range_and_all_used(columns: Any) -> None:
    graph = Graph.from_data(random_regular(60, 4, 0))
    bucket = bucket_of_node(graph, 7, columns, 0)
    assert set(bucket.tolist()) == set(range(7))
    np.testing.assert_array_equal(bucket_of_node(graph, 60, columns, 0), np.arange(60))


def test_cells_are_neighbourhoods() -> None:
    bucket = bucket_of_node(Graph.from_data(path(40)), 5, "cells", 0)
    assert np.count_nonzero(np.diff(bucket)) == 4


def test_every_component_has_a_bucket_when_there_are_more_components_than_buckets() -> None:
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=10)
    bucket = bucket_of_node(Graph.from_data(data), 3, "cells", 0)
    assert bucket.min() >= 0
    assert bucket.max() < 3


@pytest.mark.parametrize("width", [20, 5])
def test_features_are_unbiased(width: int) -> None:
    """The mean over seeds lies within five standard errors of the expectation, on the diagonal too."""
    data = barabasi_albert(20, 2, 0)
    kernels = []
    for seed in range(300):
        rpe = GRFRPE(1, GRFOptions(walks=2, width=width, seed=seed)).double()
        kernels.append(rpe(Prepare(rpe.structures)(data.clone())).to_dense().detach().exp()[0])
    expected = grf_reference(rpe, data).detach().exp()[0]
    sample = torch.stack(kernels)
    error = (sample.mean(0) - expected) / (sample.std(0) / 300**0.5 + 1e-12)
    assert float(error.abs().max()) < 5.0
    assert abs(float(error.mean())) < 0.5


def test_the_error_falls_with_the_number_of_walks() -> None:
    data = grid(4, 5)
    errors = []
    for walks in (4, 64, 1024):
        rpe = GRFRPE(1, GRFOptions(walks=walks)).double()
        kernel = rpe(Prepare(rpe.structures)(data.clone())).to_dense().exp()
        errors.append(float((kernel - grf_reference(rpe, data).exp()).detach().norm()))
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 0.5 * errors[1]


def test_seeds_differ_and_repeat() -> None:
    graph = Graph.from_data(grid(4, 5))
    first, again, other = (WalkFeatures(3, 20, seed=seed).compute(graph)["query"] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_queries_and_keys_take_different_walks() -> None:
    fields = WalkFeatures(3, 20).compute(Graph.from_data(grid(4, 5)))
    assert not torch.equal(fields["query"], fields["key"])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: WalkRPE(1, WalkOptions(discount=1.0)), "discount = 1.0"),
        (lambda: WalkRPE(1, WalkOptions(length=-1)), "length = -1"),
        (lambda: WalkRPE(1, WalkOptions(width=0)), "width = 0"),
        (lambda: GRFRPE(1, GRFOptions(halt=0.0)), "halt = 0.0"),
        (lambda: GRFRPE(1, GRFOptions(walks=0)), "walks = 0"),
        (lambda: GRFRPE(1, GRFOptions(decay=1.5)), "decay = 1.5"),
    ],
)
def test_options_out_of_range_are_named(build: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        build()
