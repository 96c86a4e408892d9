"""Encodings of what is nearest: degrees as key weights, edges as a sparse bias."""

from __future__ import annotations

from kdlgt.registry import RPESpec, hookimpl
from kdlgt_edge.degree import DegreeOptions, DegreeRPE, Degrees, degree_reference
from kdlgt_edge.edge import EdgeOptions, EdgePairs, EdgeRPE, edge_reference
from kdlgt_edge.path_edge import PathEdgeOptions, PathEdgeRPE, PathEdges, path_edge_reference

__all__ = [
    "DegreeOptions",
    "DegreeRPE",
    "Degrees",
    "EdgeOptions",
    "EdgePairs",
    "EdgeRPE",
    "PathEdgeOptions",
    "PathEdgeRPE",
    "PathEdges",
    "degree_reference",
    "edge_reference",
    "path_edge_reference",
]


@hookimpl
def kdlgt_rpes() -> list[RPESpec]:
    """The encodings ``degree``, ``edge`` and ``path_edge``."""
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
            variants=(DegreeOptions(max_degree=2, slope=0.7),),
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
            variants=(EdgeOptions(categories=(3,), bias=0.5), EdgeOptions(width=1, field="edge_weight")),
        ),
        RPESpec(
            name="path_edge",
            factory=lambda heads, channels, options: PathEdgeRPE(heads, options),
            options=PathEdgeOptions,
            kind="ineffective",
            exactness="biased",
            symmetric=False,
            equivariance="in law",
            complexity="O(E d), edges only; exact: O(N^2 length)",
            summary="Graphormer's edge encoding: types of the edges on a shortest path, in full under exact attention",
            source="Ying et al., Do Transformers Really Perform Bad for Graph Representation?, NeurIPS 2021",
            reference=path_edge_reference,
        ),
    ]
