"""Spectral encodings: functions of the normalised Laplacian, and truncated eigendecompositions of given operators."""

from __future__ import annotations

from kdlgt.registry import RPESpec, hookimpl
from kdlgt_spectral.operator import (
    OperatorOptions,
    OperatorRPE,
    OperatorSpectrum,
    operator_error,
    operator_reference,
)
from kdlgt_spectral.spectral import LaplacianSpectrum, SpectralOptions, SpectralRPE, spectral_reference

__all__ = [
    "LaplacianSpectrum",
    "OperatorOptions",
    "OperatorRPE",
    "OperatorSpectrum",
    "SpectralOptions",
    "SpectralRPE",
    "operator_error",
    "operator_reference",
    "spectral_reference",
]


@hookimpl
def kdlgt_rpes() -> list[RPESpec]:
    """The encodings ``spectral`` and ``operator``."""
    return [
        RPESpec(
            name="spectral",
            factory=lambda heads, channels, options: SpectralRPE(heads, options),
            options=SpectralOptions,
            kind="multiplicative",
            complexity="O(N m r); eigenpairs once",
            summary="U f(L) U^T over extreme Laplacian eigenpairs: heat, random walk, resistance or learned",
            source="Chung, Spectral Graph Theory (1997)",
            reference=spectral_reference,
            variants=(SpectralOptions(rank=3), SpectralOptions(function="resistance", end="largest", per_node=False)),
        ),
        RPESpec(
            name="operator",
            factory=lambda heads, channels, options: OperatorRPE(heads, options),
            options=OperatorOptions,
            kind="multiplicative",
            complexity="O(N m r); eigenpairs once",
            summary="truncated eigendecomposition of a symmetric operator on the graph, with its spectral error",
            source="Eckart and Young, Psychometrika 1 (1936)",
            reference=operator_reference,
            variants=(OperatorOptions(rank=3), OperatorOptions(weights="edge_weight")),
        ),
    ]
