"""Encodings of what is nearest: degrees as key weights, edges as a sparse bias."""

from __future__ import annotations

from kdlgt.registry import RPESpec, hookimpl
from kdlgt_edge.degree import DegreeOptions, DegreeRPE, Degrees, degree_reference
from kdlgt_edge.edge import EdgeOptions, EdgePairs, EdgeRPE, edge_reference

__all__ = [
    "DegreeOptions",
    "DegreeRPE",
    "Degrees",
    "EdgeOptions",
    "EdgePairs",
    "EdgeRPE",
    "degree_reference",
    "edge_reference",
]


@hookimpl
def kdlgt_rpes() -> list[RPESpec]:
    """The encodings ``degree`` and ``edge``."""
    return [
        RPESpec(
            name="degree",
            factory=lambda heads, channels, options: DegreeRPE(heads, options),
            options=DegreeOptions,
            kind="additive",
            complexity="O(N)",
            summary="a learned key weight per degree and head",
            source="Ying et al., Do Transformers Really Perform Bad for Graph Representation?, NeurIPS 2021",
            reference=degree_reference,
        ),
        RPESpec(
            name="edge",
            factory=lambda heads, channels, options: EdgeRPE(heads, options),
            options=EdgeOptions,
            kind="sparse",
            symmetric=False,
            complexity="O(E d)",
            summary="a learned bias on edges, by edge type or from edge features",
            source="Dwivedi and Bresson, A Generalization of Transformer Networks to Graphs, 2021",
            reference=edge_reference,
        ),
    ]
