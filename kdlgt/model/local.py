"""The local branch: PyG convolutions by name, behind one signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import attrs
import torch
import torch_geometric.nn as gnn
from torch import Tensor, nn

from kdlgt.errors import ArgumentError, GraphError, unknown_name

DEFAULT_DEGREES = (0, 0, 0, 0, 1)
"""Degree histogram for PNA when none is given: its scalers are then relative to degree 4."""


@attrs.frozen
class ConvArguments:
    """What a convolution is built from.

    Attributes:
        channels: width in and out.
        heads: attention heads for convolutions that have them; divides ``channels``.
        edge_channels: width of the edge states, or ``None`` without.
        degrees: histogram of degrees in the training data.
    """

    channels: int
    heads: int
    edge_channels: int | None
    degrees: Tensor


@attrs.frozen
class Conv:
    """One row of the table.

    Attributes:
        build: makes the module.
        edges: whether it takes edge states.
    """

    build: Callable[[ConvArguments], nn.Module]
    edges: Literal["never", "optional", "required"] = "never"


def _plain(convolution: Callable[..., nn.Module]) -> Conv:
    return Conv(lambda given: convolution(given.channels, given.channels))


def _with_heads(convolution: Callable[..., nn.Module]) -> Conv:
    def build(given: ConvArguments) -> nn.Module:
        width = given.channels // given.heads
        return convolution(given.channels, width, heads=given.heads, edge_dim=given.edge_channels)

    return Conv(build, edges="optional")


def _perceptron(channels: int) -> nn.Module:
    """Two layers without batch norm, which would couple the graphs of a batch."""
    return nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))


def _pna(given: ConvArguments) -> nn.Module:
    aggregators, scalers = ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"]
    degrees, edge_dim = given.degrees, given.edge_channels
    conv: nn.Module = gnn.PNAConv(given.channels, given.channels, aggregators, scalers, deg=degrees, edge_dim=edge_dim)
    return conv


def _gated(given: ConvArguments) -> nn.Module:
    conv: nn.Module = gnn.ResGatedGraphConv(given.channels, given.channels, edge_dim=given.edge_channels)
    return conv


CONVS: dict[str, Conv] = {
    "ARMA": _plain(gnn.ARMAConv),
    "ClusterGCN": _plain(gnn.ClusterGCNConv),
    "GAT": _with_heads(gnn.GATConv),
    "GATv2": _with_heads(gnn.GATv2Conv),
    "GCN": _plain(gnn.GCNConv),
    "GIN": Conv(lambda given: gnn.GINConv(_perceptron(given.channels), train_eps=True)),
    "GINE": Conv(
        lambda given: gnn.GINEConv(_perceptron(given.channels), train_eps=True, edge_dim=given.edge_channels),
        edges="required",
    ),
    "GatedGCN": Conv(_gated, edges="optional"),
    "Graph": _plain(gnn.GraphConv),
    "GraphSAGE": _plain(gnn.SAGEConv),
    "LE": _plain(gnn.LEConv),
    "PNA": Conv(_pna, edges="optional"),
    "SAGE": _plain(gnn.SAGEConv),
    "SG": _plain(gnn.SGConv),
    "TAG": _plain(gnn.TAGConv),
    "Transformer": _with_heads(gnn.TransformerConv),
}
"""PyG's convolutions, by PyG's name or their paper's; all of them work node by node, so graphs stay isolated."""


def takes_edges(name: str) -> bool:
    """Whether the convolution takes edge states; :class:`~kdlgt.errors.UnknownNameError` for an unknown name."""
    return _find(name).edges != "never"


def _find(name: str) -> Conv:
    if name not in CONVS:
        raise unknown_name("convolution", name, CONVS)
    return CONVS[name]


class LocalBranch(nn.Module):
    """Message passing over the edges, from states [N, channels] to states [N, channels].

    Args:
        name: a row of :data:`CONVS`.
        channels: width of the states.
        heads: attention heads for convolutions that have them.
        edge_channels: width of the edge states, or ``None`` without.
        degree_histogram: number of training nodes of each degree, for PNA's scalers.

    Raises:
        UnknownNameError: an unknown convolution.
        ArgumentError: edge states missing where the convolution needs them, or given where it takes none; ``heads``
            does not divide ``channels``.
        GraphError: from a call, ``edge_index`` is missing or holds no integers.
    """

    def __init__(
        self,
        name: str,
        channels: int,
        *,
        heads: int = 1,
        edge_channels: int | None = None,
        degree_histogram: Tensor | None = None,
    ) -> None:
        super().__init__()
        row = _find(name)
        if heads < 1 or channels % heads:
            raise ArgumentError(f"{name}: channels = {channels} is not a multiple of heads = {heads}")
        _check_edges(name, row, edge_channels)
        degrees = torch.tensor(DEFAULT_DEGREES) if degree_histogram is None else degree_histogram
        self.takes_edges = edge_channels is not None
        self.conv = row.build(ConvArguments(channels, heads, edge_channels, degrees))

    def forward(self, x: Tensor, edge_index: Tensor | None, edge_states: Tensor | None = None) -> Tensor:
        """States [N, channels]; ``edge_states`` [E, channels] where the branch was built with them."""
        if not isinstance(edge_index, Tensor) or edge_index.is_floating_point():
            got = "is missing" if edge_index is None else f"has dtype {edge_index.dtype}"
            raise GraphError(f"edge_index {got}; the local branch needs integers [2, E] (E may be 0)")
        states: Tensor = (
            self.conv(x, edge_index, edge_attr=edge_states) if self.takes_edges else self.conv(x, edge_index)
        )
        return states


def _check_edges(name: str, row: Conv, edge_channels: int | None) -> None:
    if row.edges == "required" and edge_channels is None:
        without = ", ".join(key for key, other in CONVS.items() if other.edges != "required")
        raise ArgumentError(f"{name} needs edge features and there are none; without edge features: {without}")
    if row.edges == "never" and edge_channels is not None:
        taking = ", ".join(key for key, other in CONVS.items() if other.edges != "never")
        raise ArgumentError(f"{name} takes no edge features; these do: {taking}")
