"""Node degrees as prepared structure."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from kdlgt.graph import Graph, Structure


@attrs.frozen
class Degree(Structure):
    """Number of neighbours of each node, without self-loops and duplicate edges."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """``degree`` [N] integer."""
        return {"degree": torch.from_numpy(graph.degree)}
