"""What every first-party encoding promises: equals its reference, commutes with relabelling, keeps graphs apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from kdlgt.attention import exact_attention, linear_attention
from kdlgt.graph import Prepare, graph_ptr
from kdlgt.graph.generate import clique, grid, path, random_regular
from kdlgt.registry import RPESpec, load_plugins
from kdlgt.rpe import RPE

pytestmark = pytest.mark.plugins

HEADS = 2

EXACT: dict[str, tuple[str, dict[str, Any]]] = {
    "spectral heat": ("spectral", {"rank": 4}),
    "spectral walk": ("spectral", {"rank": 4, "function": "walk", "steps": 3}),
    "spectral resistance": ("spectral", {"rank": 4, "function": "resistance", "per_node": False}),
    "spectral learned": ("spectral", {"rank": 4, "function": "learned"}),
    "spectral largest": ("spectral", {"rank": 3, "end": "largest"}),
    "operator": ("operator", {"rank": 4}),
    "operator adjacency": ("operator", {"rank": 6, "operator": "adjacency"}),
    "walk": ("walk", {"width": 64}),
    "walk cells": ("walk", {"width": 4}),
    "walk hash": ("walk", {"width": 4, "columns": "hash", "norm": "l1"}),
    "degree": ("degree", {"max_degree": 3, "slope": 0.7}),
    "edge": ("edge", {"bias": 0.8}),
}
APPROXIMATE: dict[str, tuple[str, dict[str, Any]]] = {
    "grf": ("grf", {"width": 64}),
    "spd sapd": ("spd", {"landmarks": 64}),
    "spd nystrom": ("spd", {"approximation": "nystrom", "landmarks": 64}),
    "spd eigen": ("spd", {"approximation": "eigen", "rank": 6, "exact_limit": 5}),
    "spd local": ("spd", {"approximation": "local", "hops": 2, "landmarks": 64, "max_distance": 3}),
    "spd local eigen": ("spd", {"approximation": "local", "far": "eigen", "rank": 4}),
    "spd local constant": ("spd", {"approximation": "local", "far": "constant"}),
}
ALL = EXACT | APPROXIMATE
INVARIANT = sorted(ALL.keys() - {"walk cells", "walk hash", "grf"})
"""Cases whose preparation commutes with relabelling on every graph: all but those that choose or draw columns."""


def _graph(nodes: int, edges: list[tuple[int, int]]) -> Data:
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return Data(edge_index=torch.cat([index, index.flip(0)], dim=1), num_nodes=nodes)


GRAPHS: dict[str, Callable[[], Data]] = {
    "grid": lambda: grid(3, 4),
    "regular": lambda: random_regular(14, 4, 0),
    "path": lambda: path(3),
    "clique": lambda: clique(6),
    "one node": lambda: _graph(1, []),
    "no edges": lambda: _graph(6, []),
    "disconnected": lambda: _graph(6, [(0, 1), (1, 2), (4, 5)]),
    "loops and duplicates": lambda: _graph(4, [(0, 0), (0, 1), (0, 1), (1, 2), (2, 3)]),
}


@pytest.fixture(scope="module")
def make() -> Callable[[str], tuple[RPESpec, RPE]]:
    registry = load_plugins()

    def build(case: str) -> tuple[RPESpec, RPE]:
        name, options = ALL[case]
        spec = registry.rpe_specs[name]
        return spec, registry.rpe(name, heads=HEADS, channels=8, **options).double()

    return build


def _vary(rpe: RPE, seed: int = 0) -> RPE:
    """Move the parameters off their initial values, differently per head."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in rpe.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return rpe


def _prepared(rpe: RPE, graph: Data) -> Data:
    prepared: Data = Prepare(rpe.structures)(graph)
    return prepared


def _gradients(rpe: RPE, dense: Tensor) -> list[Tensor]:
    """Gradients of a fixed functional of the kernel exp(B), in which -inf is an ordinary zero."""
    weight = torch.linspace(-1, 1, dense.numel(), dtype=dense.dtype).view(dense.shape).sin()
    return list(torch.autograd.grad((weight * dense.exp()).sum(), list(rpe.parameters()), allow_unused=False))


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("case", EXACT)
def test_value_and_gradient_equal_the_reference(make: Any, case: str, graph: str) -> None:
    spec, rpe = make(case)
    _vary(rpe)
    data = GRAPHS[graph]()
    value = rpe(_prepared(rpe, data.clone())).to_dense()
    reference = spec.reference(rpe, data)
    torch.testing.assert_close(value, reference, rtol=1e-9, atol=1e-9)
    for got, expected in zip(_gradients(rpe, value), _gradients(rpe, reference), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("case", [case for case in APPROXIMATE if case.startswith("spd")])
def test_exact_form_equals_the_reference_where_the_linear_form_approximates(make: Any, case: str, graph: str) -> None:
    spec, rpe = make(case)
    _vary(rpe)
    data = GRAPHS[graph]()
    value = rpe.exact(_prepared(rpe, data.clone())).to_dense()
    reference = spec.reference(rpe, data)
    torch.testing.assert_close(value, reference)
    for got, expected in zip(_gradients(rpe, value), _gradients(rpe, reference), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("case", ALL)
def test_each_parameter_gets_a_finite_gradient(make: Any, case: str, graph: str) -> None:
    _, rpe = make(case)
    _vary(rpe)
    for gradient in _gradients(rpe, rpe(_prepared(rpe, GRAPHS[graph]())).to_dense()):
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("case", ALL)
def test_each_parameter_of_each_head_gets_a_gradient(make: Any, case: str) -> None:
    _, rpe = make(case)
    _vary(rpe)
    for name, gradient in zip(
        dict(rpe.named_parameters()), _gradients(rpe, rpe(_prepared(rpe, grid(4, 4))).to_dense()), strict=True
    ):
        heads_last = name == "table"
        per_head = gradient.abs().movedim(-1 if heads_last else 0, 0).reshape(HEADS, -1).sum(1)
        assert (per_head > 0).all(), name


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("case", INVARIANT)
def test_preparation_commutes_with_relabelling(make: Any, case: str, graph: str) -> None:
    _, rpe = make(case)
    _vary(rpe)
    data = GRAPHS[graph]()
    nodes = int(data.num_nodes or 0)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(1))
    position = torch.empty_like(order)
    position[order] = torch.arange(nodes)
    relabelled = Data(edge_index=position[data.edge_index], num_nodes=nodes)
    for form in (rpe, rpe.exact):
        original = form(_prepared(rpe, data.clone())).to_dense()
        moved = form(_prepared(rpe, relabelled.clone())).to_dense()
        torch.testing.assert_close(moved, original[:, order][:, :, order], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("case", ALL)
def test_a_batch_gives_what_each_graph_gives_alone(make: Any, case: str) -> None:
    _, rpe = make(case)
    _vary(rpe)
    prepared = [_prepared(rpe, build()) for build in GRAPHS.values()]
    batch = Batch.from_data_list(prepared)
    for form in (rpe, rpe.exact):
        whole, start = form(batch).to_dense(), 0
        for single in prepared:
            end = start + int(single.num_nodes or 0)
            torch.testing.assert_close(whole[:, start:end, start:end], form(single).to_dense())
            start = end


@pytest.mark.parametrize("case", ALL)
def test_preparation_is_deterministic_and_leaves_random_state_and_input_alone(make: Any, case: str) -> None:
    _, rpe = make(case)
    data = random_regular(40, 4, 1)
    edges, state = data.edge_index.clone(), torch.get_rng_state()
    first, second = _prepared(rpe, data), _prepared(rpe, data)
    fields = set(first.keys()) - set(data.keys())
    assert fields
    assert all(torch.equal(first[field], second[field]) for field in fields)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(data.edge_index, edges)
    assert set(data.keys()) == {"edge_index", "num_nodes"}


@pytest.mark.parametrize("case", ALL)
def test_dtype_follows_the_module(make: Any, case: str) -> None:
    _, rpe = make(case)
    batch = _prepared(rpe, grid(4, 4))
    double = rpe(batch).to_dense()
    single = rpe.float()(batch).to_dense()
    assert (double.dtype, single.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 2, 0, 3, 1)])
def test_exact_attention_with_a_sum_is_softmax_with_the_dense_sum(make: Any, order: tuple[int, ...]) -> None:
    cases = ["spectral heat", "spd eigen", "walk", "degree", "edge"]
    rpes = [_vary(make(cases[number])[1], number) for number in order]
    total = sum(rpes[1:], rpes[0])
    batch = Batch.from_data_list([_prepared(total, grid(3, 4)), _prepared(total, path(5))])
    nodes = int(batch.num_nodes or 0)
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, nodes, HEADS, 4, dtype=torch.float64, generator=generator)
    got = exact_attention(q, k, v, total.exact(batch), ptr=graph_ptr(batch))
    logits = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(4) + sum(rpe.exact(batch).to_dense() for rpe in rpes)
    apart = batch.batch[:, None] != batch.batch[None, :]
    expected = logits.masked_fill(apart, -math.inf).softmax(-1) @ v.transpose(0, 1)
    torch.testing.assert_close(got, expected.transpose(0, 1))


@pytest.mark.parametrize("case", ALL)
def test_linear_attention_takes_every_encoding(make: Any, case: str) -> None:
    _, rpe = make(case)
    batch = Batch.from_data_list([_prepared(rpe, build()) for build in GRAPHS.values()])
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, int(batch.num_nodes or 0), HEADS, 4, dtype=torch.float64, generator=generator)
    output = linear_attention(q, k, v, rpe(batch), ptr=graph_ptr(batch))
    assert torch.isfinite(output).all()
    one_node = batch.batch == list(GRAPHS).index("one node")
    torch.testing.assert_close(output[one_node], v[one_node])
