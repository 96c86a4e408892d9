"""Graphormer's spatial encoding: one learned number per shortest path distance and head, with linear approximations."""

from __future__ import annotations

from kdlgt.registry import RPESpec, hookimpl
from kdlgt_spd.distances import AllDistances, NearPairs
from kdlgt_spd.error import ApproximationError, approximation_error
from kdlgt_spd.spd import SPDRPE, FarName, SPDOptions, spd_reference

__all__ = [
    "SPDRPE",
    "AllDistances",
    "ApproximationError",
    "NearPairs",
    "SPDOptions",
    "approximation_error",
    "spd_reference",
]


def _variants() -> tuple[SPDOptions, ...]:
    """Every far field under ``local``, and a table so short that distances are clipped."""
    far: tuple[FarName, ...] = ("nystrom", "eigen", "constant")
    return (
        *(SPDOptions(approximation="local", far=name) for name in far),
        SPDOptions(approximation="local", hops=2, max_distance=2, landmarks=4),
    )


def _refinements() -> tuple[tuple[SPDOptions, ...], ...]:
    return (
        tuple(SPDOptions(approximation="nystrom", landmarks=count) for count in (2, 6, 13)),
        tuple(SPDOptions(approximation="eigen", rank=rank) for rank in (1, 4, 13)),
        tuple(SPDOptions(approximation="local", far="constant", hops=hops) for hops in (1, 2, 4, 8)),
    )


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
            variants=_variants(),
            refinements=_refinements(),
        )
    ]
