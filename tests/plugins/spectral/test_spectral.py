"""Spectral encodings: what the functions are, and the edges of the spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from kdlgt.errors import ArgumentError, GraphError
from kdlgt.graph import Graph, Prepare
from kdlgt.graph.generate import cycle, grid, path
from kdlgt_spectral import OperatorOptions, OperatorRPE, OperatorSpectrum, SpectralOptions, SpectralRPE, operator_error

pytestmark = pytest.mark.plugins


def _dense(rpe: SpectralRPE | OperatorRPE, data: Data) -> torch.Tensor:
    value: torch.Tensor = rpe.double()(Prepare(rpe.structures)(data)).to_dense()
    return value


def _laplacian(data: Data) -> np.ndarray[Any, np.dtype[np.float64]]:
    dense = Graph.from_data(data).adjacency.toarray().astype(np.float64)
    root = 1 / np.sqrt(dense.sum(1))
    laplacian: np.ndarray[Any, np.dtype[np.float64]] = np.eye(len(dense)) - root[:, None] * dense * root
    return laplacian


def _full(data: Data, matrix: Any) -> torch.Tensor:
    """A function of the Laplacian without its null vector: projected, and times the amplitude and the size."""
    values, vectors = np.linalg.eigh(_laplacian(data))
    null = vectors[:, :1]
    keep = np.eye(len(values)) - null @ null.T
    return torch.from_numpy(keep @ matrix @ keep)[None]


@pytest.mark.parametrize("function", ["heat", "walk", "resistance"])
def test_all_eigenpairs_give_the_function_of_the_laplacian(function: Any) -> None:
    data = grid(3, 5)
    options = SpectralOptions(rank=20, function=function, time=0.8, steps=3, amplitude=1.0, per_node=False)
    laplacian = _laplacian(data)
    values, vectors = np.linalg.eigh(laplacian)
    expected = {
        "heat": (vectors * np.exp(-0.8 * values)) @ vectors.T,
        "walk": np.linalg.matrix_power(np.eye(len(laplacian)) - laplacian, 3),
        "resistance": np.linalg.pinv(laplacian),
    }[function]
    torch.testing.assert_close(_dense(SpectralRPE(1, options), data), _full(data, expected), rtol=1e-6, atol=1e-6)


def test_resistance_orders_the_nodes_of_a_path_by_distance() -> None:
    options = SpectralOptions(rank=16, function="resistance", amplitude=1.0, per_node=False)
    bias = _dense(SpectralRPE(1, options), cycle(12))[0]
    resistance = bias.diagonal()[:, None] + bias.diagonal()[None, :] - 2 * bias
    hops = torch.tensor([[min(abs(i - j), 12 - abs(i - j)) for j in range(12)] for i in range(12)])
    torch.testing.assert_close(resistance, 2.0 * (hops * (12 - hops)).double() / 12)


def test_per_node_keeps_the_size_of_the_bias() -> None:
    short, long = (_dense(SpectralRPE(1, SpectralOptions(rank=4)), path(nodes)).detach() for nodes in (50, 800))
    torch.testing.assert_close(long.abs().max(), short.abs().max(), rtol=0.1, atol=0.0)


def test_factors_of_one_sign_share_the_root() -> None:
    rpe = SpectralRPE(2, SpectralOptions(rank=4, amplitude=1.0)).double()
    value = rpe(Prepare(rpe.structures)(grid(4, 5)))
    torch.testing.assert_close(value.query_factor, value.key_factor)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SpectralOptions(rank=0), "factor_width = 0"),
        (SpectralOptions(time=0.0), "time = 0.0"),
        (SpectralOptions(steps=0), "steps = 0"),
        (SpectralOptions(hidden=0), "hidden = 0"),
    ],
)
def test_options_out_of_range_are_named(options: SpectralOptions, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        SpectralRPE(2, options)


@pytest.mark.parametrize("rank", [3, 6])
def test_the_stated_error_is_the_spectral_norm_of_what_is_left_out(rank: int) -> None:
    data = grid(3, 4)
    rpe = OperatorRPE(2, OperatorOptions(rank=rank, operator="laplacian", amplitude=-2.0))
    batch = Prepare(rpe.structures)(data.clone())
    left_out = rpe.double()(batch).to_dense() + 2.0 * torch.from_numpy(_laplacian(data))
    torch.testing.assert_close(torch.linalg.matrix_norm(left_out, ord=2), operator_error(rpe, batch)[0])


def test_edge_weights_become_the_operator() -> None:
    data = path(4)
    data.edge_attr = torch.arange(1.0, 1.0 + data.edge_index.size(1))
    weights = torch.zeros(4, 4, dtype=torch.float64)
    weights[data.edge_index[0], data.edge_index[1]] = data.edge_attr.double()
    rpe = OperatorRPE(1, OperatorOptions(rank=4, weights="edge_attr"))
    torch.testing.assert_close(_dense(rpe, data)[0], (weights + weights.T) / 2)


def test_missing_edge_weights_are_named() -> None:
    rpe = OperatorRPE(1, OperatorOptions(weights="length"))
    with pytest.raises(GraphError, match="'length'"):
        Prepare(rpe.structures)(path(4))


def test_a_matrix_of_ones_own() -> None:
    def hops(graph: Graph) -> Any:
        places = np.arange(graph.num_nodes)
        return -np.abs(places[:, None] - places[None, :]).astype(np.float64)

    rpe = OperatorRPE(1, OperatorOptions(), OperatorSpectrum("path hops", 9, hops))
    bias = _dense(rpe, path(9))[0]
    torch.testing.assert_close(bias, torch.from_numpy(hops(Graph.from_data(path(9)))))
