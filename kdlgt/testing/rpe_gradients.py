"""Gradients: right by finite differences, and there for every parameter."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call

from kdlgt.rpe import RPE
from kdlgt.testing.check import SkipCheck
from kdlgt.testing.rpe_case import RPECase


def gradcheck(case: RPECase) -> None:
    """Attention weights have the gradient that finite differences give, by every parameter and the states."""
    rpe = case.rpe()
    data = case.prepared(rpe, case.ordinary["random of 13 nodes"])
    named = {name: parameter for name, parameter in rpe.named_parameters() if parameter.requires_grad}
    inputs = [parameter.detach().clone().requires_grad_() for parameter in named.values()]
    if rpe.needs_states:
        inputs.append(data.x.clone().requires_grad_())
    if not inputs:
        raise SkipCheck("there are no parameters and no states")

    def attention(*tensors: Tensor) -> Tensor:
        given = dict(zip(named, tensors, strict=False))
        value = functional_call(rpe, given, (data.clone(), *tensors[len(named) :]))
        return case.weights(value)

    torch.autograd.gradcheck(attention, inputs, fast_mode=True, atol=1e-6, rtol=1e-3)


def gradients(case: RPECase) -> None:
    """Every parameter has a gradient that is not zero on some ordinary graph."""
    rpe = case.rpe()
    named = {name: parameter for name, parameter in rpe.named_parameters() if parameter.requires_grad}
    if not named:
        raise SkipCheck("there are no parameters")
    largest = dict.fromkeys(named, 0.0)
    for graph in case.ordinary:
        for name, gradient in _gradients(case, rpe, named, graph).items():
            largest[name] = max(largest[name], gradient)
    still = [name for name, size in largest.items() if size == 0.0]
    assert not still, f"attention does not depend on: {', '.join(still)}"


def _gradients(case: RPECase, rpe: RPE, named: dict[str, torch.nn.Parameter], graph: str) -> dict[str, float]:
    """Largest gradient of each parameter; NaN counts as none."""
    weights = case.weights(case.value(rpe, case.prepared(rpe, case.ordinary[graph])))
    if not weights.requires_grad:
        return {}
    pattern = torch.arange(weights.numel(), dtype=weights.dtype).sin().view(weights.shape)
    total = (pattern * weights).sum()
    found = torch.autograd.grad(total, list(named.values()), allow_unused=True, materialize_grads=True)
    return {name: float(gradient.nan_to_num().abs().amax()) for name, gradient in zip(named, found, strict=True)}
