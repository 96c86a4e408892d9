"""Means over the seeds of an encoding's own generator, for what it claims in the mean or in law."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from kdlgt.rpe import RPE
from kdlgt.testing.compare import NO_ATTENTION
from kdlgt.testing.rpe_case import RPECase

DRAWS = 120
"""Seeds that are averaged over."""

DEVIATIONS = 5.0
"""Standard errors that a mean over seeds may be off; the chance of one false alarm is below 1e-4."""


def has_seed(case: RPECase) -> bool:
    """Whether the options have a ``seed`` to average over."""
    return "seed" in attrs.fields_dict(case.spec.options)


def reseeded(case: RPECase, rpe: RPE, seed: int) -> RPE:
    """A module with another seed and the parameters of this one."""
    other = case.fresh(attrs.evolve(case.options, seed=seed))
    given = dict(rpe.named_parameters())
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            parameter.copy_(given[name])
    return other


def averaged(case: RPECase, bias: Tensor) -> Tensor:
    """What means are taken of: ``exp(B)`` for a kernel, whose products are what is drawn, and ``B`` for other kinds."""
    clamped = bias.detach().double().clamp_min(NO_ATTENTION)
    return clamped.exp() if case.spec.kind == "kernel" else clamped


def symbol(case: RPECase) -> str:
    """What means are taken of, in a message."""
    return "exp(B)" if case.spec.kind == "kernel" else "B"
