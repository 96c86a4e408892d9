"""Values against the reference, by the spec's exactness; and the symmetric tag."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import torch
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.graph.generate import grid
from kdlgt.rpe import RPE
from kdlgt.testing.check import SkipCheck
from kdlgt.testing.compare import assert_same, dense, is_mixture, softmax, total_variation
from kdlgt.testing.graphs import with_attributes
from kdlgt.testing.rpe_case import CHANNELS, HEADS, RPECase

DRAWS = 120
"""Seeds that an unbiased encoding is averaged over."""

WORSE = 1.1
"""How much worse than no encoding an approximation may be in the mean over rows; the measure is coarse."""

DEVIATIONS = 5.0
"""Standard errors that a mean over seeds may be off; the chance of one false alarm is below 1e-4."""


def reference(case: RPECase) -> None:
    """The value equals the slow reference: itself if exact, its exact form if biased, in the mean if unbiased."""
    if case.spec.exactness == "unbiased":
        _check_mean(case)
        return
    forms = ["exact form"] if case.spec.exactness == "biased" else ["linear form", "exact form"]
    rpe = case.rpe()
    for name, graph in case.graphs.items():
        data = case.prepared(rpe, graph)
        expected = case.reference(rpe, data)
        for form in forms:
            got = dense(case.forms(rpe)[form](data), HEADS)
            assert_same(got, expected, f"{name}: the {form} against the reference")


def reference_gradient(case: RPECase) -> None:
    """The gradient of every parameter equals that of the reference."""
    if case.spec.exactness == "unbiased":
        raise SkipCheck("tagged unbiased: the value's gradient is that of one draw")
    form = "exact form" if case.spec.exactness == "biased" else "linear form"
    rpe = case.rpe()
    for name, graph in case.ordinary.items():
        data = case.prepared(rpe, graph)
        expected = case.reference(rpe, data)
        if not expected.requires_grad:
            raise SkipCheck("the reference is cut from the parameters, or there are none")
        got = dense(case.forms(rpe)[form](data), HEADS)
        for parameter, (a, b) in _both_gradients(rpe, got, expected).items():
            assert_same(a, b, f"{name}: the gradient of {parameter} against the reference's", rtol=1e-6, atol=1e-8)


def _both_gradients(rpe: RPE, got: Tensor, expected: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    named = dict(rpe.named_parameters())
    each = [
        torch.autograd.grad(_functional(bias), list(named.values()), allow_unused=True, materialize_grads=True)
        for bias in (got, expected)
    ]
    return dict(zip(named, zip(*each, strict=True), strict=True))


def _functional(bias: Tensor) -> Tensor:
    """A fixed smooth number of the attention weights."""
    attention = softmax(bias)
    pattern = torch.arange(attention.numel(), dtype=attention.dtype).sin().view(attention.shape)
    return (pattern * attention).sum()


def approximation(case: RPECase) -> None:
    """A biased linear form is no farther from the exact bias than no encoding at all, measured in attention weights.

    On a graph of a hundred nodes: on the others, anchors and ranks of a default size are as many as nodes.
    """
    if case.spec.exactness != "biased":
        raise SkipCheck(f"tagged {case.spec.exactness}: the check of the reference covers it")
    error, without = _errors(case, case.options, with_attributes(grid(10, 10), CHANNELS, seed=0))
    assert error <= WORSE * without + 1e-9, (
        f"grid 10x10: total variation {error:.3f} against the exact bias; no encoding at all has {without:.3f}"
    )


def refinement(case: RPECase) -> None:
    """Along each of the spec's ``refinements`` the error falls."""
    if case.spec.exactness != "biased":
        raise SkipCheck(f"tagged {case.spec.exactness}: nothing to refine")
    if not case.spec.refinements:
        raise SkipCheck("the spec names no refinements, options from coarse to fine")
    if not case.is_default:
        raise SkipCheck("refinements are checked once, with the default options")
    for series in case.spec.refinements:
        errors = [sum(_errors(case, options, graph)[0] for graph in case.ordinary.values()) for options in series]
        falls = all(b <= 1.05 * a + 1e-9 for a, b in itertools.pairwise(errors)) and errors[-1] < 0.9 * errors[0]
        shown = ", ".join(f"{error:.4f}" for error in errors)
        assert falls, f"the error does not fall along {series}: {shown}"


def _errors(case: RPECase, options: Any, graph: Data) -> tuple[float, float]:
    """Total variation of attention weights from the reference: of the linear form, and of no encoding."""
    rpe = case.fresh(options)
    data = case.prepared(rpe, graph)
    exact = softmax(case.reference(rpe, data))
    uniform = torch.full_like(exact, 1.0 / exact.size(-1))
    return total_variation(case.weights(case.value(rpe, data)), exact), total_variation(uniform, exact)


def _check_mean(case: RPECase) -> None:
    """Sums over rows, columns, diagonal and all of ``exp(B)`` (B, if no kernel) over seeds, against the reference."""
    if "seed" not in attrs.fields_dict(case.spec.options):
        raise AssertionError("tagged unbiased, but the options have no `seed` to average over")
    state = case.rpe().state_dict()
    draws = torch.stack([_deviation(case, state, seed) for seed in range(DRAWS)])
    standard_error = draws.std(0) / DRAWS**0.5
    deviation = draws.mean(0).abs()
    off = deviation > DEVIATIONS * standard_error + 1e-9
    assert not bool(off.any()), (
        f"the mean over {DRAWS} seeds is off the reference by "
        f"{float((deviation / standard_error.clamp_min(1e-30)).amax()):.1f} standard errors"
    )


def _deviation(case: RPECase, state: dict[str, Any], seed: int) -> Tensor:
    """Summaries of one draw less those of its reference, which may itself depend on the seed (drawn columns)."""
    rpe = case.fresh(attrs.evolve(case.options, seed=seed))
    rpe.load_state_dict(state)
    data = case.prepared(rpe, case.ordinary["random of 13 nodes"])
    drawn, expected = dense(case.value(rpe, data), HEADS), case.reference(rpe, data)
    return _summaries(_linear_scale(case, drawn)) - _summaries(_linear_scale(case, expected))


def _linear_scale(case: RPECase, bias: Tensor) -> Tensor:
    return bias.detach().double().exp() if case.spec.kind == "kernel" else bias.detach().double()


def _summaries(matrix: Tensor) -> Tensor:
    trace = matrix.diagonal(dim1=1, dim2=2).sum(-1)
    return torch.cat([matrix.sum(1).flatten(), matrix.sum(2).flatten(), trace, matrix.sum((1, 2))])


def symmetric(case: RPECase) -> None:
    """``B = B^T`` where the spec says so."""
    if not case.spec.symmetric:
        raise SkipCheck("the spec does not claim symmetry")
    rpe = case.rpe()
    for name, graph in case.ordinary.items():
        data = case.prepared(rpe, graph)
        for form, make in case.forms(rpe).items():
            value = make(data)
            if is_mixture(value):
                raise SkipCheck("the value averages softmaxes, so it is no matrix B")
            bias = dense(value, HEADS)
            assert_same(bias, bias.mT, f"{name}: the {form} is tagged symmetric and is not", rtol=1e-6, atol=1e-8)
