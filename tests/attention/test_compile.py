"""Compilers, autocast and deterministic mode: the same answers, and no graph break in the attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from kdlgt.algebra import Additive, Decomposition, Kernel, Mixture, Multiplicative, Partition, Sparse
from kdlgt.attention import exact_attention, linear_attention
from kdlgt.features import Conditioned, FavorPlus, FavorPlusPlus, FeatureMap, Trigonometric

NODES, HEADS, DIM = 50, 2, 4
PTR = torch.tensor([0, 20, 50])

Make = Callable[..., Any]
Bias = Callable[[Tensor], Decomposition | None]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def operands() -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (draw(NODES, HEADS, DIM, seed=seed).requires_grad_() for seed in range(3))
    return q, k, v


def sparse(values: Tensor) -> Decomposition:
    return Sparse(torch.stack([torch.arange(NODES), torch.arange(NODES).flip(0)]), values[:, 0, :1], NODES)


def steep(values: Tensor) -> Decomposition:
    """The first graph's kernel falls so steeply that features and kernel need one joint shift."""
    log = torch.cat([300 * values[:20], values[20:]])
    return Kernel(log, log)


KINDS: dict[str, tuple[Bias, int]] = {
    "none": (lambda values: None, 0),
    "multiplicative+additive": (lambda x: Multiplicative(x, x) + Additive(x[:, :, 0], x[:, :, 0]), 3),
    "partition": (lambda x: Partition(torch.arange(NODES) % 3), 0),
    "kernel": (lambda x: Kernel(x, x), 0),
    "steep kernel": (steep, 0),
    "sparse": (sparse, 0),
    "mixture": (lambda x: Mixture(x, torch.ones(NODES, 3, dtype=torch.bool)), 0),
}


def attention(bias: Bias, features: FeatureMap) -> Callable[..., Tensor]:
    def call(q: Tensor, k: Tensor, v: Tensor, values: Tensor, ptr: Tensor) -> Tensor:
        return linear_attention(q, k, v, bias(values), features=features, ptr=ptr)

    return call


LONG = {"kernel", "steep kernel"}


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.slow] if k in LONG else []) for k in KINDS])
def test_one_graph_and_the_same_output(kind: str) -> None:
    bias, width = KINDS[kind]
    call = attention(bias, FavorPlus(DIM + width, 8, HEADS))
    arguments = (*operands(), draw(NODES, 1, 3), PTR)
    compiled = torch.compile(call, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*arguments), call(*arguments))


@pytest.mark.parametrize(
    "features", [FavorPlusPlus(DIM, 8, HEADS), Trigonometric(DIM, 8, HEADS), Conditioned(FavorPlus(DIM, 8, HEADS))]
)
def test_every_feature_map_can_be_followed(features: FeatureMap) -> None:
    call = attention(KINDS["none"][0], features)
    arguments = (*operands(), draw(NODES, 1, 3), PTR)
    compiled = torch.compile(call, fullgraph=True, backend="eager")
    tolerance = 1e-4 if isinstance(features, Trigonometric) else 1e-5  # its signed sums come near zero
    torch.testing.assert_close(compiled(*arguments), call(*arguments), rtol=tolerance, atol=tolerance)


def gradients(call: Callable[..., Tensor], kind: str) -> tuple[Tensor, ...]:
    given = operands()
    return torch.autograd.grad(call(*given, draw(NODES, 1, 3), PTR).square().sum(), given)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multiplicative+additive", "partition", "kernel", "steep kernel"])
def test_gradients_through_the_whole_graph(kind: str) -> None:
    bias, width = KINDS[kind]
    call = attention(bias, FavorPlus(DIM + width, 8, HEADS))
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for one, other in zip(gradients(compiled, kind), gradients(call, kind), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.slow
def test_generated_code_computes_the_same() -> None:
    bias, width = KINDS["multiplicative+additive"]
    call = attention(bias, FavorPlus(DIM + width, 8, HEADS))
    compiled = torch.compile(call, fullgraph=True)
    arguments = (*operands(), draw(NODES, 1, 3), PTR)
    torch.testing.assert_close(compiled(*arguments), call(*arguments), rtol=1e-5, atol=1e-5)
    kind = "multiplicative+additive"
    for one, other in zip(gradients(compiled, kind), gradients(call, kind), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_another_batch_needs_no_new_graph() -> None:
    """Sizes are symbols: a second batch with other graphs runs the graph of the first."""
    graphs = []

    def count(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        graphs.append(module)
        return module.forward

    call = attention(KINDS["none"][0], FavorPlus(DIM, 8, HEADS))
    compiled = torch.compile(call, fullgraph=True, backend=count, dynamic=True)
    for nodes, ptr in ((50, [0, 20, 50]), (70, [0, 7, 30, 70]), (41, [0, 3, 9, 30, 41])):
        q, k, v = (draw(nodes, HEADS, DIM, seed=seed) for seed in range(3))
        arguments = (q, k, v, draw(nodes, 1, 3), torch.tensor(ptr))
        torch.testing.assert_close(compiled(*arguments), call(*arguments))
    assert len(graphs) == 1


@pytest.mark.parametrize("attend", [linear_attention, exact_attention])
def test_autocast_computes_in_float32(attend: Callable[..., Tensor]) -> None:
    """Under autocast in bfloat16, projections may be bfloat16, the attention accumulates in float32."""
    q, k, v = operands()
    expected = attend(q, k, v, ptr=PTR)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(attend(q, k, v, ptr=PTR), expected)
        half = attend(q.bfloat16(), k.bfloat16(), v.bfloat16(), ptr=PTR)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), expected, rtol=3e-2, atol=3e-2)
    half.float().sum().backward()
    assert q.grad is not None
    assert bool(torch.isfinite(q.grad).all())


def test_deterministic_mode(make_problem: Make, kind: str, device: torch.device) -> None:
    """No operation without a deterministic form, and twice the same bits, forward and backward."""
    problem = make_problem(60, dtype=torch.float32)
    bias = problem.bias(kind)
    width = 3 if "multiplicative" in kind else 0
    features = FavorPlus(DIM + width, 16, HEADS).to(device)
    bias = None if bias is None else bias.to(device)
    torch.use_deterministic_algorithms(True)
    try:
        results = []
        for _ in range(2):
            q, k, v = (side.to(device).requires_grad_() for side in (problem.q, problem.k, problem.v))
            output = linear_attention(q, k, v, bias, ptr=torch.tensor([0, 25, 60]), features=features)
            results.append((output, *torch.autograd.grad(output.square().sum(), (q, k, v))))
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
