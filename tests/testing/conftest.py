"""A sound encoding and a sound feature map, which the zoo breaks in one way each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Decomposition, Multiplicative
from kdlgt.graph import Graph, Structure, read_structure
from kdlgt.registry import RPESpec
from kdlgt.rpe import RPE, MultiplicativeRPE
from kdlgt.testing import CheckResult, check_rpe


@attrs.frozen
class Degrees(Structure):
    """Two columns per node: its degree and one, scaled down."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        degree = torch.from_numpy(graph.degree).double()
        return {"trait": torch.stack([degree / 4, torch.ones_like(degree)], dim=1) / 2}


@attrs.frozen(kw_only=True)
class Options:
    seed: int = 0


class Sound(MultiplicativeRPE):
    """``B = w_h T T^T`` with a trait T [N, 2]."""

    structure: Structure = Degrees()

    def __init__(self, heads: int, options: Options) -> None:
        super().__init__(heads, 2)
        self.options = options
        self.weight = nn.Parameter(torch.full((heads,), 0.7))

    @property
    def structures(self) -> tuple[Structure, ...]:
        return (self.structure,)

    def trait(self, batch: Data) -> Tensor:
        return read_structure(batch, self.structure, "trait").to(self.weight)

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        trait = self.trait(batch)[:, None, :]
        return Multiplicative(trait * self.weight[:, None], trait)


def reference(rpe: RPE, data: Data) -> Tensor:
    assert isinstance(rpe, Sound)
    trait = rpe.trait(data)
    return rpe.weight[:, None, None] * (trait @ trait.T)


@pytest.fixture(scope="session")
def sound() -> type[Sound]:
    return Sound


def spec_of(cls: type[RPE], **claims: Any) -> RPESpec:
    declared: dict[str, Any] = {
        "name": "specimen",
        "factory": functools.partial(_make, cls),
        "options": Options,
        "kind": "multiplicative",
        "summary": "a specimen of the zoo",
        "reference": reference,
    }
    return RPESpec(**(declared | claims))


def _make(cls: Callable[[int, Options], RPE], heads: int, channels: int, options: Options) -> RPE:
    return cls(heads, options)


@pytest.fixture(scope="session")
def make_spec() -> Callable[..., RPESpec]:
    return spec_of


@pytest.fixture(scope="session")
def failures() -> Callable[[RPESpec], dict[str, str]]:
    """The checks that fail, with their reasons."""

    def run(spec: RPESpec) -> dict[str, str]:
        results: list[CheckResult] = check_rpe(spec)
        return {result.check: result.reason for result in results if result.status == "failed"}

    return run
