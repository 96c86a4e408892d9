"""Random attention inputs and biases of every kind."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import torch
from torch import Tensor

from kdlgt.algebra import Additive, Decomposition, Kernel, Multiplicative, Partition, Sparse

HEADS, DIM, RANK = 2, 4, 3


@attrs.frozen(eq=False)
class Problem:
    """Queries, keys, values [N, H, d], and a maker of biases over the same nodes."""

    q: Tensor
    k: Tensor
    v: Tensor
    generator: torch.Generator

    @property
    def nodes(self) -> int:
        return self.q.size(0)

    def draw(self, *shape: int) -> Tensor:
        return torch.randn(*shape, dtype=self.q.dtype, generator=self.generator)

    def bias(self, kind: str) -> Decomposition | None:
        """One kind by name, or several joined by ``+``; ``none`` for no bias."""
        if kind == "none":
            return None
        first, *others = (BIASES[name](self) for name in kind.split("+"))
        for other in others:
            first = first + other
        return first


def _sparse(problem: Problem) -> Decomposition:
    pairs = torch.randint(problem.nodes, (2, 3 * problem.nodes), generator=problem.generator).unique(dim=1)
    return Sparse(pairs, problem.draw(pairs.size(1), HEADS), problem.nodes)


def _kernel(problem: Problem) -> Decomposition:
    features = problem.draw(problem.nodes, HEADS, 3).abs()
    features[..., 0] = torch.where(features[..., 0] < 0.4, 0.0, features[..., 0])
    return Kernel.from_features(features, problem.draw(problem.nodes, 1, 3).abs())


BIASES: dict[str, Callable[[Problem], Decomposition]] = {
    "multiplicative": lambda p: Multiplicative(0.3 * p.draw(p.nodes, HEADS, RANK), 0.3 * p.draw(p.nodes, 1, RANK)),
    "additive": lambda p: Additive(p.draw(p.nodes, 1), p.draw(p.nodes, HEADS)),
    "kernel": _kernel,
    "sparse": _sparse,
    "partition": lambda p: Partition(torch.randint(3, (p.nodes,), generator=p.generator)),
}

KINDS = [
    "none",
    "multiplicative",
    "additive",
    "kernel",
    "sparse",
    "partition",
    "multiplicative+additive",
    "kernel+additive",
    "multiplicative+additive+kernel+partition+sparse",
]


@pytest.fixture
def make_problem() -> Callable[..., Problem]:
    def make(nodes: int, *, seed: int = 0, std: float = 1.0, dtype: torch.dtype = torch.float64) -> Problem:
        generator = torch.Generator().manual_seed(seed)
        q, k, v = (torch.randn(nodes, HEADS, DIM, dtype=dtype, generator=generator) for _ in range(3))
        return Problem(std * q, std * k, v, generator)

    return make


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
