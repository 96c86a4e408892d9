"""What every other check builds on: the spec, the protocol, shapes, and finite numbers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kdlgt.algebra import Decomposition, Lowered, lower
from kdlgt.attention import exact_attention, linear_attention
from kdlgt.errors import ArgumentError, NotPreparedError
from kdlgt.graph import Structure, graph_ptr
from kdlgt.registry import EXTENSIONS
from kdlgt.registry.specs import Kind
from kdlgt.registry.validation import spec_faults
from kdlgt.rpe import RPE, IneffectiveRPE
from kdlgt.testing.check import SkipCheck
from kdlgt.testing.compare import assert_same
from kdlgt.testing.rpe_case import HEADS, RPECase

ACCOMPANIMENT: dict[Kind, frozenset[str]] = {
    "multiplicative": frozenset({"additive"}),
    "additive": frozenset(),
    "kernel": frozenset({"additive", "multiplicative"}),
    "sparse": frozenset({"additive"}),
}
"""Cheaper parts that a value of a kind may hold too; a partition, which confines attention, goes with every kind."""


def works(case: RPECase) -> None:
    """The spec is valid, the factory builds an RPE, and its value fits the graph, the heads and the factor width."""
    faults = spec_faults(case.spec, EXTENSIONS["rpe"])
    assert not faults, "; ".join(faults)
    rpe = _built(case)
    structures: tuple[object, ...] = rpe.structures
    strangers = [thing for thing in structures if not isinstance(thing, Structure)]
    assert not strangers, f"rpe.structures holds {strangers}; expected kdlgt.graph.Structure values"
    for name, graph in case.ordinary.items():
        data = case.prepared(rpe, graph)
        for form, make in case.forms(rpe).items():
            _check_value(make(data), int(graph.num_nodes or 0), f"{name}, {form}")
    width = lower(case.value(rpe, data)).factor_width
    assert width == rpe.factor_width, (
        f"the value has {width} factor columns and the module declares factor_width = {rpe.factor_width}; "
        "feature maps are made that wide before the first batch"
    )


def _built(case: RPECase) -> RPE:
    try:
        rpe = case.fresh()
    except ArgumentError as error:
        if case.is_default:
            raise
        raise SkipCheck(f"the encoding refuses these options: {error}") from error
    assert rpe.heads == HEADS, f"built with heads = {HEADS}, the module has heads = {rpe.heads}"
    return rpe


def _check_value(value: object, nodes: int, where: str) -> None:
    assert isinstance(value, Decomposition), f"{where}: got {type(value).__name__}; expected Decomposition"
    assert value.num_nodes == nodes, f"{where}: the value is over {value.num_nodes} nodes; the graph has {nodes}"
    assert value.num_heads in (1, HEADS), f"{where}: the value has {value.num_heads} heads; expected 1 or {HEADS}"


def lowered(case: RPECase) -> None:
    """What attention sees, ``lower(value)``, is the same bias as the value's dense form."""
    rpe = case.rpe()
    for name, graph in case.ordinary.items():
        value = case.value(rpe, case.prepared(rpe, graph))
        form = lower(value)
        if form.mixture is not None:
            raise SkipCheck("the value averages softmaxes, so it has no dense form")
        assert_same(form.to_dense(), value.to_dense(), f"{name}: the lowered value against the dense one")


def kind(case: RPECase) -> None:
    """The value lowers to the kind that the spec declares; the tag speaks of the default options."""
    rpe = case.rpe()
    if case.spec.kind == "ineffective":
        given = type(rpe).__mro__[1].__name__
        assert isinstance(rpe, IneffectiveRPE), f"declared ineffective, but the module is {given}, no IneffectiveRPE"
        return
    parts = _parts(lower(case.value(rpe, case.prepared(rpe, next(iter(case.ordinary.values()))))))
    allowed = ACCOMPANIMENT[case.spec.kind] | {case.spec.kind, "partition"}
    right = case.spec.kind in parts and parts <= allowed
    found = ", ".join(sorted(parts)) or "zero"
    if not right and not case.is_default:
        raise SkipCheck(f"the kind is that of the default options; these lower to {found}")
    assert right, f"declared {case.spec.kind!r}, and the value lowers to: {found}"


def _parts(form: Lowered) -> set[str]:
    names = ("multiplicative", "additive", "kernel", "sparse", "partition", "mixture")
    return {name for name in names if getattr(form, name) is not None}


def states(case: RPECase) -> None:
    """``needs_states`` is true exactly when the value depends on the node states."""
    rpe = case.rpe()
    data = case.prepared(rpe, next(iter(case.ordinary.values())))
    if rpe.needs_states:
        values = [case.observed(rpe(data.clone(), factor * data.x), data) for factor in (1.0, -2.0)]
        assert not torch.equal(*values), "needs_states is true, but the value does not depend on the states"
    else:
        values = [case.observed(rpe(data.clone(), given), data) for given in (None, data.x.clone())]
        assert torch.equal(*values), "needs_states is false, but the value depends on the states"


def unprepared(case: RPECase) -> None:
    """A batch that was not prepared is refused with an error that says so."""
    rpe = case.rpe()
    if not rpe.structures:
        raise SkipCheck("the encoding needs no structure")
    data = next(iter(case.ordinary.values()))
    try:
        case.value(rpe, data)
    except NotPreparedError:
        return
    raise AssertionError("no NotPreparedError on a batch that was not prepared; use kdlgt.graph.read_structure")


def finite(case: RPECase) -> None:
    """On every graph, degenerate ones too, bias, gradients and attention are finite (-inf forbids a pair)."""
    for name, graph in case.graphs.items():
        rpe = case.rpe()
        data = case.prepared(rpe, graph)
        for form, make in case.forms(rpe).items():
            observed = case.observed(make(data), data)
            _assert_proper(observed, f"{name}, {form}")
            _assert_finite_gradients(rpe, observed, f"{name}, {form}")
        _assert_finite_attention(case.value(rpe, data), graph_ptr(data), name)


def _assert_proper(bias: Tensor, where: str) -> None:
    assert not bool(bias.isnan().any()), f"{where}: the bias holds NaN"
    assert not bool((bias == math.inf).any()), f"{where}: the bias holds +inf"
    alone = (bias == -math.inf).all(-1)
    assert not bool(alone.any()), f"{where}: node {int(alone.nonzero()[0][1])} attends to nobody, not even itself"


def _assert_finite_gradients(rpe: RPE, bias: Tensor, where: str) -> None:
    named = {name: parameter for name, parameter in rpe.named_parameters() if parameter.requires_grad}
    if not named or not bias.requires_grad:
        return
    total = bias.softmax(-1).square().sum()
    found = torch.autograd.grad(total, list(named.values()), allow_unused=True, materialize_grads=True)
    for name, gradient in zip(named, found, strict=True):
        assert bool(gradient.isfinite().all()), (
            f"{where}: the gradient of {name} holds NaN or inf (mask before you multiply, not after)"
        )


def _assert_finite_attention(value: Decomposition, ptr: Tensor, where: str) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, value.num_nodes, HEADS, 4, generator=generator, dtype=torch.float64)
    for attention in (linear_attention, exact_attention):
        output = attention(q, k, v, value, ptr=ptr)
        assert bool(output.isfinite().all()), f"{where}: {attention.__name__} with it is not finite"
