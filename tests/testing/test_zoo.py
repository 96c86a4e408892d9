"""A sound encoding, and broken ones: each is caught by exactly its own check."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Decomposition, Lowered, Multiplicative, lower, scale, to_dense, transpose
from kdlgt.errors import NotPreparedError
from kdlgt.graph import Graph, Structure, graph_ids, graph_ptr, read_structure
from kdlgt.registry import RPESpec
from kdlgt.rpe import RPE, IneffectiveRPE, MultiplicativeRPE
from kdlgt.testing import check_rpe
from kdlgt.testing.rpe import CHECKS


@attrs.frozen
class Traits(Structure):
    """Field ``trait`` [N, 2]: degree and one, scaled down."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        degree = torch.from_numpy(graph.degree).double()
        return {"trait": torch.stack([degree / 4, torch.ones_like(degree)], dim=1) / 2}


@attrs.frozen(kw_only=True)
class Options:
    seed: int = 0


class Sound(MultiplicativeRPE):
    """``B = w_h T T^T`` with one weight per head."""

    structure: Structure = Traits()

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
        return self.value(self.trait(batch))

    def value(self, trait: Tensor) -> Decomposition:
        return Multiplicative(trait[:, None, :] * self.weight[:, None], trait[:, None, :].expand(-1, self.heads, -1))


def reference(rpe: RPE, data: Data) -> Tensor:
    assert isinstance(rpe, Sound)
    trait = rpe.trait(data)
    return rpe.weight[:, None, None] * (trait @ trait.T)


def make_spec(cls: Callable[[int, Options], RPE], **claims: Any) -> RPESpec:
    declared: dict[str, Any] = {
        "name": "specimen",
        "factory": functools.partial(_build, cls),
        "options": Options,
        "kind": "multiplicative",
        "summary": "a specimen of the zoo",
        "reference": reference,
    }
    return RPESpec(**(declared | claims))


def _build(cls: Callable[[int, Options], RPE], heads: int, channels: int, options: Options) -> RPE:
    return cls(heads, options)


def failures(spec: RPESpec) -> dict[str, str]:
    return {result.check: result.reason for result in check_rpe(spec) if result.status == "failed"}


# -- the protocol ------------------------------------------------------------------------------------------------------


class WrongHeads(Sound):
    def value(self, trait: Tensor) -> Decomposition:
        factor = trait[:, None, :].expand(-1, self.heads + 1, -1)
        return Multiplicative(factor, factor)


class WrongWidth(Sound):
    def __init__(self, heads: int, options: Options) -> None:
        super().__init__(heads, options)
        self.factor_width = 5


class WrongNodes(Sound):
    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        return self.value(self.trait(batch)[1:])


class NoDecomposition(Sound):
    def forward(self, batch: Data, x: Tensor | None = None) -> Any:
        return self.trait(batch) @ self.trait(batch).T


class UsesStates(Sound):
    """Reads the states in secret."""

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        trait = self.trait(batch)
        return self.value(trait if x is None else trait + x[:, :2].to(trait))


class NeedsNoStates(Sound):
    """Makes every layer call it anew, for nothing."""

    needs_states = True


class Lenient(Sound):
    """Makes something up when the batch is not prepared."""

    def trait(self, batch: Data) -> Tensor:
        try:
            return super().trait(batch)
        except NotPreparedError:
            return torch.zeros(int(batch.num_nodes or 0), 2).to(self.weight)


# -- values ------------------------------------------------------------------------------------------------------------


def skewed(trait: Tensor) -> Tensor:
    return trait.flip(-1) * torch.tensor([1.0, 3.0]).to(trait)


class Asymmetric(Sound):
    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        trait = self.trait(batch)[:, None, :]
        return Multiplicative(trait * self.weight[:, None], skewed(trait).expand(-1, self.heads, -1))


def asymmetric_reference(rpe: RPE, data: Data) -> Tensor:
    assert isinstance(rpe, Sound)
    trait = rpe.trait(data)
    return rpe.weight[:, None, None] * (trait @ skewed(trait).T)


def wrong_reference(rpe: RPE, data: Data) -> Tensor:
    return 1.1 * reference(rpe, data)


def reference_with_wrong_gradient(rpe: RPE, data: Data) -> Tensor:
    dense = reference(rpe, data)
    return 2 * dense - dense.detach()


@attrs.frozen
class Standardised(Structure):
    """Degrees minus mean over deviation: 0 / 0 on a single node."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        degree = torch.from_numpy(graph.degree).double()
        standard = (degree - degree.mean()) / degree.std(unbiased=False)
        return {"trait": torch.stack([standard, torch.ones_like(degree)], dim=1) / 2}


class NaNOnOneNode(Sound):
    structure = Standardised()


@attrs.frozen
class NeedsEdges(Structure):
    """Raises on a graph without edges."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        return {"trait": Traits().compute(graph)["trait"] * float(min(1, graph.adjacency.indices.max()))}


class RaisesWithoutEdges(Sound):
    structure = NeedsEdges()


class InfiniteGradient(Sound):
    """The root of a distance that is zero: a right value with an infinite gradient where all traits are equal."""

    def value(self, trait: Tensor) -> Decomposition:
        spread = (trait - trait[:1]).square().sum(1, keepdim=True) * self.weight.mean()
        return super().value(trait + spread.sum().sqrt() * 0.0)


@attrs.frozen
class Noise(Structure):
    """The trait times a random number of mean ``mean``."""

    seed: int
    mean: float

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        draw = np.random.default_rng(self.seed).normal(self.mean, 0.2)
        trait = Traits().compute(graph)["trait"]
        return {"trait": trait, "draw": torch.full((graph.num_nodes,), draw, dtype=torch.float64)}


class Unbiased(Sound):
    mean = 1.0

    def __init__(self, heads: int, options: Options) -> None:
        super().__init__(heads, options)
        self.structure = Noise(options.seed, self.mean)

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        trait = self.trait(batch)[:, None, :]
        draw = read_structure(batch, self.structure, "draw").to(trait)[:, None, None]
        return Multiplicative(trait * draw * self.weight[:, None], trait)


class Biased(Unbiased):
    mean = 1.1


class Approximate(IneffectiveRPE):
    """The exact form is right, and the linear form is ``factor`` times it."""

    structure: Structure = Traits()
    factor = 0.9

    def __init__(self, heads: int, options: Options) -> None:
        super().__init__(heads)
        self.factor_width = 2
        self.weight = nn.Parameter(torch.full((heads,), 0.7))

    @property
    def structures(self) -> tuple[Structure, ...]:
        return (self.structure,)

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        trait = read_structure(batch, self.structure, "trait").to(self.weight)[:, None, :]
        return Multiplicative(trait * (self.factor * self.weight[:, None]), trait)

    def pair_bias(self, batch: Data, pairs: Tensor) -> Tensor:
        trait = read_structure(batch, self.structure, "trait").to(self.weight)
        return (trait[pairs[0]] * trait[pairs[1]]).sum(1, keepdim=True) * self.weight


class WorseThanNothing(Approximate):
    factor = -3.0


def approximate_reference(rpe: RPE, data: Data) -> Tensor:
    assert isinstance(rpe, Approximate)
    trait = read_structure(data, rpe.structure, "trait").to(rpe.weight)
    return rpe.weight[:, None, None] * (trait @ trait.T)


APPROXIMATE = {"kind": "ineffective", "exactness": "biased", "reference": approximate_reference}


# -- the algebra -------------------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class Product(Decomposition):
    """A kind of its own, ``B = T T^T``, wrong in one operation."""

    query: Tensor
    key: Tensor
    fault: str

    @property
    def num_nodes(self) -> int:
        return self.query.size(0)

    @property
    def num_heads(self) -> int:
        return self.query.size(1)

    @property
    def plain(self) -> Multiplicative:
        return Multiplicative(self.query, self.key)

    def __add__(self, other: Decomposition) -> Any:
        return super().__add__(self) if self.fault == "sum" else super().__add__(other)

    def permute(self, order: Tensor) -> Decomposition:
        return self if self.fault == "permute" else super().permute(order)


@to_dense.register
def _(value: Product) -> Tensor:
    return to_dense(value.plain)


@lower.register
def _(value: Product) -> Lowered:
    return lower(value.plain * 2.0 if value.fault == "lower" else value.plain)


@transpose.register
def _(value: Product) -> Decomposition:
    return value if value.fault == "transpose" else attrs.evolve(value, query=value.key, key=value.query)


@scale.register
def _(value: Product, factor: float | Tensor) -> Decomposition:
    return value if value.fault == "scale" else scale(value.plain, factor)


class OwnKind(Asymmetric):
    fault = "none"

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        value = super().forward(batch, x)
        assert isinstance(value, Multiplicative)
        return Product(value.query_factor, value.key_factor, self.fault)


class WrongLowering(OwnKind):
    fault = "lower"


class WrongSum(OwnKind):
    fault = "sum"


class WrongScale(OwnKind):
    fault = "scale"


class WrongTranspose(OwnKind):
    fault = "transpose"


class WrongPermutation(OwnKind):
    fault = "permute"


OWN_KIND = {"symmetric": False, "reference": asymmetric_reference}


# -- invariance --------------------------------------------------------------------------------------------------------


class Leaks(Sound):
    """Centres by the mean over the whole batch."""

    def trait(self, batch: Data) -> Tensor:
        trait = super().trait(batch)
        return trait - trait.mean(0)


@attrs.frozen
class Numbered(Structure):
    """Reads something into node numbers."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        number = torch.arange(graph.num_nodes, dtype=torch.float64)
        return {"trait": torch.stack([number / graph.num_nodes, torch.ones_like(number)], dim=1) / 2}


class LabelDependent(Sound):
    structure = Numbered()


class PositionDependent(Sound):
    """Reads something into the position of a node in its graph, at every call."""

    def trait(self, batch: Data) -> Tensor:
        trait = super().trait(batch)
        position = torch.arange(trait.size(0)) - graph_ptr(batch)[graph_ids(batch)]
        return trait * (1 + position[:, None] / 10)


@attrs.frozen(kw_only=True)
class NoOptions:
    """Nothing to set, no seed either."""


@attrs.frozen
class NumberedAndDrawn(Structure):
    """Reads something into node numbers, in the mean over seeds."""

    seed: int

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        noise = np.random.default_rng(self.seed).normal(1.0, 0.2, (graph.num_nodes, 1))
        return {"trait": Numbered().compute(graph)["trait"] * torch.from_numpy(noise)}


class LabelDependentInTheMean(Sound):
    def __init__(self, heads: int, options: Options) -> None:
        super().__init__(heads, options)
        self.structure = NumberedAndDrawn(options.seed)


@attrs.frozen
class DrawnPerNode(Structure):
    """Every node draws by its number, from one distribution."""

    seed: int

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        noise = np.random.default_rng(self.seed).normal(1.0, 0.2, (graph.num_nodes, 1))
        return {"trait": Traits().compute(graph)["trait"] * torch.from_numpy(noise)}


class InLaw(Sound):
    def __init__(self, heads: int, options: Options) -> None:
        super().__init__(heads, options)
        self.structure = DrawnPerNode(options.seed)


# -- gradients ---------------------------------------------------------------------------------------------------------


class Idle(Sound):
    """Has a parameter that nothing depends on."""

    def __init__(self, heads: int, options: Options) -> None:
        super().__init__(heads, options)
        self.idle = nn.Parameter(torch.ones(heads))


class WrongGradient(Sound):
    def value(self, trait: Tensor) -> Decomposition:
        weight = 2 * self.weight - self.weight.detach()
        return Multiplicative(trait[:, None, :] * weight[:, None], trait[:, None, :].expand(-1, self.heads, -1))


# -- attention ---------------------------------------------------------------------------------------------------------


class Unbalanced(Sound):
    """A right product of factors of very different size."""

    def value(self, trait: Tensor) -> Decomposition:
        value = super().value(trait)
        assert isinstance(value, Multiplicative)
        return Multiplicative(value.query_factor * 30, value.key_factor / 30)


class Quadratic(Sound):
    def value(self, trait: Tensor) -> Decomposition:
        affinity = trait @ trait.T
        return super().value(trait + 0.0 * affinity.sum(1, keepdim=True))


@attrs.frozen
class StoresAllPairs(Structure):
    def compute(self, graph: Graph) -> dict[str, Tensor]:
        return Traits().compute(graph) | {"pairs": torch.from_numpy(graph.adjacency.toarray()).flatten()}


class QuadraticStorage(Sound):
    structure = StoresAllPairs()


# -- state -------------------------------------------------------------------------------------------------------------


class AlwaysDouble(Sound):
    def trait(self, batch: Data) -> Tensor:
        return read_structure(batch, self.structure, "trait")


class NotPicklable(Sound):
    def __init__(self, heads: int, options: Options) -> None:
        super().__init__(heads, options)
        self.function = lambda value: value


class ForgetsItsState(Sound):
    """Holds what it learned outside parameters and buffers."""

    def __init__(self, heads: int, options: Options) -> None:
        super().__init__(heads, options)
        self.calls: list[int] = []

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]
        return state | {"_parameters": {"weight": nn.Parameter(self.weight.detach() + 1)}}


class Mutates(Sound):
    """Leaves its scratch work on the batch."""

    def trait(self, batch: Data) -> Tensor:
        trait = super().trait(batch)
        batch.scratch = trait.detach()
        return trait


class DrawsGlobally(Sound):
    def value(self, trait: Tensor) -> Decomposition:
        return super().value(trait + 0.0 * torch.rand(1))


@attrs.frozen
class GlobalNoise(Structure):
    def compute(self, graph: Graph) -> dict[str, Tensor]:
        np.random.rand()  # noqa: NPY002 - the fault
        return Traits().compute(graph)


class PreparesGlobally(Sound):
    structure = GlobalNoise()


@attrs.frozen
class RandomSigns(Structure):
    """Signs of columns, as eigenvector solvers draw them: the bias is the same, the structure is not."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        signs = torch.from_numpy(np.random.default_rng().choice([-1.0, 1.0], size=(1, 2)))
        noise = torch.from_numpy(np.random.default_rng().random(graph.num_nodes))
        return {"trait": Traits().compute(graph)["trait"] * signs, "noise": noise}


class NotDeterministic(Sound):
    structure = RandomSigns()


def _grow(value: int) -> int:
    return value + 1


@attrs.frozen(kw_only=True)
class DriftingOptions:
    seed: int = attrs.field(default=0, converter=_grow)


ZOO: dict[str, tuple[type[RPE], dict[str, Any], str]] = {
    "wrong number of heads": (WrongHeads, {}, "works"),
    "wrong factor width": (WrongWidth, {}, "works"),
    "wrong number of nodes": (WrongNodes, {}, "works"),
    "a tensor instead of a decomposition": (NoDecomposition, {}, "works"),
    "a claim that does not exist": (Sound, {"exactness": "roughly"}, "works"),
    "options that can be changed": (Sound, {"options": attrs.define(type("Mutable", (), {}))}, "works"),
    "reads states in secret": (UsesStates, {}, "states"),
    "asks for states in vain": (NeedsNoStates, {}, "states"),
    "makes up what was not prepared": (Lenient, {}, "unprepared"),
    "wrong kind": (Sound, {"kind": "kernel"}, "kind"),
    "wrong symmetric tag": (Asymmetric, {"reference": asymmetric_reference}, "symmetric"),
    "wrong reference": (Sound, {"reference": wrong_reference}, "reference"),
    "wrong gradient of the reference": (Sound, {"reference": reference_with_wrong_gradient}, "reference gradient"),
    "tagged unbiased, off in the mean": (Biased, {"exactness": "unbiased"}, "reference"),
    "tagged exact, right in the mean alone": (Unbiased, {"exactness": "exact"}, "reference"),
    "an approximation worse than none": (WorseThanNothing, APPROXIMATE, "approximation"),
    "refinements that refine nothing": (
        Approximate,
        APPROXIMATE | {"refinements": ((Options(), Options(seed=1)),)},
        "refinement",
    ),
    "NaN on one node": (NaNOnOneNode, {}, "finite"),
    "raises on a graph without edges": (RaisesWithoutEdges, {}, "finite"),
    "infinite gradient at a tie": (InfiniteGradient, {}, "finite"),
    "wrong lowering of its own kind": (WrongLowering, OWN_KIND, "lowered"),
    "wrong sum": (WrongSum, OWN_KIND, "sums"),
    "wrong scaling": (WrongScale, OWN_KIND, "scaling"),
    "wrong transpose": (WrongTranspose, OWN_KIND, "transposition"),
    "wrong permutation": (WrongPermutation, OWN_KIND, "permutation"),
    "leaks between graphs": (Leaks, {}, "isolation"),
    "preparation depends on node numbers": (LabelDependent, {}, "preparation"),
    "node numbers, said to be ties": (LabelDependent, {"equivariance": "in law", "options": NoOptions}, "preparation"),
    "node numbers, and a seed that changes nothing": (LabelDependent, {"equivariance": "in law"}, "preparation"),
    "node numbers in the mean over seeds": (LabelDependentInTheMean, {"equivariance": "in law"}, "preparation"),
    "draws, said to commute exactly": (InLaw, {"equivariance": "exact"}, "preparation"),
    "value depends on positions": (PositionDependent, {"equivariance": "in law"}, "equivariance"),
    "parameter without gradient": (Idle, {}, "gradients"),
    "wrong gradient": (WrongGradient, {"reference": None}, "gradcheck"),
    "factors of different size": (Unbalanced, {}, "convergence"),
    "N x N tensor": (Quadratic, {}, "memory"),
    "stores N x N": (QuadraticStorage, {}, "memory"),
    "one dtype for all": (AlwaysDouble, {}, "dtype"),
    "not picklable": (NotPicklable, {}, "saving"),
    "a copy that is no copy": (ForgetsItsState, {}, "saving"),
    "options that do not come back": (Sound, {"options": DriftingOptions}, "config"),
    "mutates its input": (Mutates, {}, "inputs"),
    "draws from torch's global state": (DrawsGlobally, {}, "random state"),
    "draws from numpy's global state": (PreparesGlobally, {}, "random state"),
    "not deterministic": (NotDeterministic, {"equivariance": "in law"}, "determinism"),
}

SOUND: dict[str, tuple[type[RPE], dict[str, Any]]] = {
    "exact": (Sound, {}),
    "unbiased": (Unbiased, {"exactness": "unbiased"}),
    "biased": (Approximate, APPROXIMATE),
    "asymmetric": (Asymmetric, OWN_KIND),
    "a kind of its own": (OwnKind, OWN_KIND),
    "in law, by draws": (InLaw, {"equivariance": "in law"}),
    "said to be in law, without ties": (Sound, {"equivariance": "in law", "options": NoOptions}),
}


@pytest.mark.parametrize("specimen", SOUND)
def test_the_sound_pass(specimen: str) -> None:
    cls, claims = SOUND[specimen]
    assert failures(make_spec(cls, **claims)) == {}


@pytest.mark.parametrize("specimen", ZOO)
def test_each_fault_is_caught_by_its_own_check_alone(specimen: str) -> None:
    cls, claims, check = ZOO[specimen]
    found = failures(make_spec(cls, **claims))
    assert set(found) == {check}, found
    assert len(found[check]) > 20


def test_a_function_of_node_numbers_is_told_what_to_do() -> None:
    for cls, options in ((LabelDependent, NoOptions), (LabelDependentInTheMean, Options)):
        reason = failures(make_spec(cls, equivariance="in law", options=options))["preparation"]
        assert "tree of 16 nodes, no two of them alike" in reason
        assert "break ties by structure (kdlgt.graph.refinement.structural_colours), or draw" in reason
    assert "the mean of B over 120 seeds is" in reason


def test_a_wrong_mean_is_shown_at_an_entry() -> None:
    reason = failures(make_spec(Biased, exactness="unbiased"))["reference"]
    found = re.match(
        r"random of 13 nodes: the mean of B over 120 seeds is (\S+) at entry \(head, i, j\) = \((\d), (\d+), (\d+)\), "
        r"and the reference (\S+); sums of entries are \d+\.\d standard errors off",
        reason,
    )
    assert found, reason
    got, *_, expected = found.groups()
    assert float(got) == pytest.approx(1.1 * float(expected), rel=0.05)


def test_every_check_has_a_specimen() -> None:
    without = set(CHECKS) - {check for _, _, check in ZOO.values()}
    assert without == {"exact attention", "device"}, "the library's own path, and what a second device shows"


def test_every_skip_has_a_reason() -> None:
    for result in check_rpe(make_spec(Sound)):
        assert result.status == "passed" or (result.status == "skipped" and len(result.reason) > 20), result
