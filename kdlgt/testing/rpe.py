"""All checks of a relative positional encoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdlgt.registry import RPESpec
from kdlgt.testing import (
    rpe_algebra,
    rpe_attention,
    rpe_basics,
    rpe_gradients,
    rpe_invariance,
    rpe_state,
    rpe_values,
)
from kdlgt.testing.check import Check, CheckResult, checks_of, run_checks
from kdlgt.testing.rpe_case import RPECase
from kdlgt.testing.sweep import label, options_of

CHECKS: dict[str, Callable[[RPECase], None]] = {
    "works": rpe_basics.works,
    "states": rpe_basics.states,
    "kind": rpe_basics.kind,
    "lowered": rpe_basics.lowered,
    "finite": rpe_basics.finite,
    "reference": rpe_values.reference,
    "reference gradient": rpe_values.reference_gradient,
    "approximation": rpe_values.approximation,
    "refinement": rpe_values.refinement,
    "symmetric": rpe_values.symmetric,
    "sums": rpe_algebra.sums,
    "exact attention": rpe_algebra.exact_sum,
    "scaling": rpe_algebra.scaling,
    "transposition": rpe_algebra.transposition,
    "permutation": rpe_algebra.permutation,
    "equivariance": rpe_invariance.equivariance,
    "preparation": rpe_invariance.preparation,
    "isolation": rpe_invariance.isolation,
    "gradcheck": rpe_gradients.gradcheck,
    "gradients": rpe_gradients.gradients,
    "convergence": rpe_attention.convergence,
    "memory": rpe_attention.memory,
    "dtype": rpe_state.dtype,
    "device": rpe_state.device,
    "saving": rpe_state.saving,
    "config": rpe_state.config,
    "determinism": rpe_state.determinism,
    "random state": rpe_state.random_state,
    "inputs": rpe_state.inputs,
    "unprepared": rpe_basics.unprepared,
}
"""Every check by name; its docstring says what must hold."""

NEEDS: dict[str, tuple[str, ...]] = {
    "reference": ("finite",),
    "preparation": ("finite", "equivariance"),
    "isolation": ("finite",),
    "sums": ("lowered",),
    "exact attention": ("lowered", "sums"),
    "reference gradient": ("reference",),
    "approximation": ("reference",),
    "refinement": ("reference",),
}
"""Checks that would fail for the same reason; all of them need the first."""


def rpe_checks(spec: RPESpec, options: Any = None) -> list[Check]:
    """Every check of an encoding, on its defaults and each variation of its typed options, as callables.

    Args:
        spec: the encoding.
        options: check these options alone, instead of the sweep.
    """
    chosen = options_of(spec) if options is None else [options]
    cases = [RPECase(spec, each, is_default=number == 0 and options is None) for number, each in enumerate(chosen)]
    return [check for case in cases for check in checks_of(case, CHECKS, label(case.options), NEEDS)]


def check_rpe(spec: RPESpec, options: Any = None) -> list[CheckResult]:
    """Run every check of an encoding; see :func:`rpe_checks`."""
    return run_checks(rpe_checks(spec, options))
