"""From node states to outputs: a head per node, or a readout and a head per graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch_geometric.nn as gnn
from torch import Tensor, nn

from kdlgt.errors import ArgumentError, require_at_least

Readout = Literal["mean", "sum", "max", "attention"]


class NodeHead(nn.Module):
    """One linear layer per node: [N, hidden] to [N, out]."""

    def __init__(self, hidden: int, out_features: int) -> None:
        super().__init__()
        require_at_least("out_features", out_features, 1)
        self.linear = nn.Linear(hidden, out_features)

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        """Outputs [N, out]."""
        output: Tensor = self.linear(x)
        return output


class GraphHead(nn.Module):
    """A readout over the nodes of each graph and a perceptron: [N, hidden] to [G, out].

    Args:
        hidden: width of the states.
        out_features: width of the outputs.
        readout: ``mean``, ``sum``, ``max``, or ``attention`` (a learned softmax over the nodes of each graph).
        dropout: dropout before the last layer.

    Raises:
        ArgumentError: an unknown readout, or ``out_features`` below 1.
    """

    def __init__(self, hidden: int, out_features: int, readout: Readout = "mean", *, dropout: float = 0.0) -> None:
        super().__init__()
        require_at_least("out_features", out_features, 1)
        self.pool = _pooling(readout, hidden)
        self.perceptron = nn.Sequential(
            nn.Linear(hidden, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, out_features)
        )

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        """Outputs [G, out] of the graphs that begin at ``ptr`` [G + 1]."""
        sizes = ptr[1:] - ptr[:-1]
        graph = torch.repeat_interleave(sizes, output_size=x.size(0))
        output: Tensor = self.perceptron(self.pool(x, graph, dim_size=sizes.numel()))
        return output


def _pooling(readout: Readout, hidden: int) -> nn.Module:
    makers: dict[str, Callable[[], nn.Module]] = {
        "mean": gnn.MeanAggregation,
        "sum": gnn.SumAggregation,
        "max": gnn.MaxAggregation,
        "attention": lambda: gnn.AttentionalAggregation(nn.Linear(hidden, 1)),
    }
    if readout not in makers:
        raise ArgumentError(f"readout = {readout!r}; allowed: {', '.join(map(repr, makers))}")
    return makers[readout]()
