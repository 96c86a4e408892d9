"""Graphormer's spatial encoding: one learned number per shortest path distance and head, with linear approximations."""

from __future__ import annotations

from kdlgt.registry import RPESpec, hookimpl
from kdlgt_spd.distances import AllDistances, NearPairs
from kdlgt_spd.error import ApproximationError, approximation_error
from kdlgt_spd.spd import SPDRPE, SPDOptions, spd_reference

__all__ = [
    "SPDRPE",
    "AllDistances",
    "ApproximationError",
    "NearPairs",
    "SPDOptions",
    "approximation_error",
    "spd_reference",
]


@hookimpl
def kdlgt_rpes() -> list[RPESpec]:
    """The encoding ``spd``."""
    return [
        RPESpec(
            name="spd",
            factory=lambda heads, channels, options: SPDRPE(heads, options),
            options=SPDOptions,
            kind="ineffective",
            exactness="biased",
            equivariance="in law",
            complexity="O(N K r d) (sapd), O(N (d + K) r) (nystrom, eigen), plus pairs within h hops (local)",
            summary="a learned number per shortest path distance and head; approximations sapd, nystrom, eigen, local",
            source="Ying et al., Do Transformers Really Perform Bad for Graph Representation?, NeurIPS 2021",
            reference=spd_reference,
        )
    ]
