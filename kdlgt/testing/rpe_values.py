"""Values against the reference, by the spec's exactness; and the symmetric tag."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.graph.generate import grid
from kdlgt.rpe import RPE
from kdlgt.testing.check import SkipCheck
from kdlgt.testing.compare import assert_same, dense, is_mixture, softmax, total_variation
from kdlgt.testing.graphs import with_attributes
from kdlgt.testing.rpe_case import CHANNELS, HEADS, RPECase
from kdlgt.testing.seeds import DEVIATIONS, DRAWS, averaged, has_seed, reseeded, symbol

WORSE = 1.1
"""How much worse than no encoding an approximation may be in the mean over rows; the measure is coarse."""


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
    if not has_seed(case):
        raise AssertionError("tagged unbiased, but the options have no `seed` to average over")
    rpe, name = case.rpe(), "random of 13 nodes"
    draws = torch.stack([_draw_and_reference(case, reseeded(case, rpe, seed), name) for seed in range(DRAWS)])
    sums = _summaries(draws[:, 0] - draws[:, 1])
    standard_error = sums.std(0) / DRAWS**0.5
    deviation = sums.mean(0).abs()
    off = deviation > DEVIATIONS * standard_error + 1e-9
    if bool(off.any()):
        times = float((deviation / standard_error.clamp_min(1e-30)).amax())
        raise AssertionError(
            f"{name}: {_worst_entry(case, draws.mean(0))}; sums of entries are {times:.1f} standard errors off"
        )


def _draw_and_reference(case: RPECase, rpe: RPE, name: str) -> Tensor:
    """One draw, and its reference [2, H, N, N]; that may itself depend on the seed (drawn columns)."""
    data = case.prepared(rpe, case.ordinary[name])
    drawn, expected = dense(case.value(rpe, data), HEADS), case.reference(rpe, data)
    return torch.stack([averaged(case, drawn), averaged(case, expected)])


def _summaries(matrices: Tensor) -> Tensor:
    """Sums of [S, H, N, N]: single entries may be drawn too rarely for a mean of theirs to say anything."""
    trace = matrices.diagonal(dim1=2, dim2=3).sum(-1)
    return torch.cat([matrices.sum(2).flatten(1), matrices.sum(3).flatten(1), trace, matrices.sum((2, 3))], dim=1)


def _worst_entry(case: RPECase, means: Tensor) -> str:
    """The entry farthest off, of a mean and its reference [2, H, N, N]."""
    got, expected = means
    entry = tuple(int(place) for place in torch.unravel_index((got - expected).abs().argmax(), got.shape))
    return (
        f"the mean of {symbol(case)} over {DRAWS} seeds is {float(got[entry]):.4g} at entry (head, i, j) = {entry}, "
        f"and the reference {float(expected[entry]):.4g}"
    )


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
