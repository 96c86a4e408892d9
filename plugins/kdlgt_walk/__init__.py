"""Kernels of random walks: GKAT's graph-nodes kernel, and graph random features."""

from __future__ import annotations

from kdlgt.registry import RPESpec, hookimpl
from kdlgt_walk.columns import bucket_of_node
from kdlgt_walk.features import GRFRPE, GRFOptions, WalkFeatures, grf_reference
from kdlgt_walk.walk import WalkOptions, WalkPowers, WalkRPE, walk_reference

__all__ = [
    "GRFRPE",
    "GRFOptions",
    "WalkFeatures",
    "WalkOptions",
    "WalkPowers",
    "WalkRPE",
    "bucket_of_node",
    "grf_reference",
    "walk_reference",
]


@hookimpl
def kdlgt_rpes() -> list[RPESpec]:
    """The encodings ``walk`` and ``grf``."""
    return [
        RPESpec(
            name="walk",
            factory=lambda heads, channels, options: WalkRPE(heads, options),
            options=WalkOptions,
            kind="kernel",
            equivariance="in law",
            complexity="O(N K r d); O(length E K) once",
            summary="GKAT's random walk graph-nodes kernel: how much the visits of two walks overlap",
            source="Choromanski et al., From block-Toeplitz matrices to differential equations on graphs, ICML 2022",
            reference=walk_reference,
            variants=(WalkOptions(width=4), WalkOptions(width=4, columns="hash")),
        ),
        RPESpec(
            name="grf",
            factory=lambda heads, channels, options: GRFRPE(heads, options),
            options=GRFOptions,
            kind="kernel",
            exactness="unbiased",
            symmetric=False,
            equivariance="in law",
            complexity="O(N K r d); O(N walks / halt) once",
            summary="graph random features: an unbiased graph kernel from terminating walks, modulated per length",
            source="Reid et al., Linear Transformer Topological Masking with Graph Random Features, ICLR 2025",
            reference=grf_reference,
            variants=(GRFOptions(width=4), GRFOptions(width=4, columns="hash")),
        ),
    ]
