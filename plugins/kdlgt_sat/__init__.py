"""SAT, the structure-aware transformer's encoding, as a multiplicative RPE of linear cost."""

from __future__ import annotations

from kdlgt.registry import RPESpec, hookimpl
from kdlgt_sat.extractor import SubgraphExtractor, SubtreeExtractor
from kdlgt_sat.reference import reference
from kdlgt_sat.rpe import SAT, SATOptions, make_sat
from kdlgt_sat.structure import EgoGraphs, SimpleEdges

__all__ = ["SAT", "EgoGraphs", "SATOptions", "SimpleEdges", "SubgraphExtractor", "SubtreeExtractor", "reference"]


@hookimpl
def kdlgt_rpes() -> list[RPESpec]:
    """The encoding ``sat``."""
    return [
        RPESpec(
            name="sat",
            factory=make_sat,
            options=SATOptions,
            kind="multiplicative",
            exactness="exact",
            symmetric=False,
            equivariance="exact",
            complexity="O(k E + N (d + m) r); k-subgraph: O(k sum of ego edges + N (d + m) r)",
            reference=reference,
            summary="structure-aware attention: queries and keys of a GNN read at each node or over its ego graph",
            source="Chen, O'Bray, Borgwardt, ICML 2022; KDLGT, IJCAI 2023, section 4.2",
        )
    ]
