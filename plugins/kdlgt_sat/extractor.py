"""Structure extractors: ``S_i = phi(v_i, G)``, a GNN read at a node or pooled over its ego graph."""

from __future__ import annotations

import abc

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.errors import require_at_least
from kdlgt.graph import Structure, read_structure
from kdlgt.model import LocalBranch
from kdlgt_sat.structure import EgoGraphs, SimpleEdges


class MessagePassing(nn.Module):
    """``k`` graph convolutions with ReLU between; no batch norm, so graphs stay isolated."""

    def __init__(self, gnn: str, channels: int, k: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(LocalBranch(gnn, channels) for _ in range(k))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """States [N, channels] after the last layer."""
        for number, conv in enumerate(self.convs):
            x = conv(torch.relu(x) if number else x, edge_index)
        return x


class Extractor(nn.Module, abc.ABC):
    """A map from node states [N, channels] to structure-aware states [N, channels].

    The result is normalised per node: with high degrees, sums over neighbours would make logits that no random features
    can follow.

    Args:
        channels: width of the states.
        k: number of layers of the GNN, and of hops that it sees.
        gnn: name of the convolution, as in ``[model.local]``.

    Raises:
        ArgumentError: ``k`` below 1, or a convolution that needs edge features.
        UnknownNameError: an unknown convolution.
    """

    def __init__(self, channels: int, k: int, gnn: str) -> None:
        super().__init__()
        require_at_least("k", k, 1)
        self.k = k
        self.gnn = MessagePassing(gnn, channels, k)
        self.norm = nn.LayerNorm(channels)

    @property
    @abc.abstractmethod
    def structure(self) -> Structure:
        """What is prepared on each graph."""

    @abc.abstractmethod
    def forward(self, batch: Data, x: Tensor) -> Tensor:
        """``S`` [N, channels]."""


class SubtreeExtractor(Extractor):
    """*k-subtree*: the GNN over the whole graph, read at each node. O(k E) per call."""

    @property
    def structure(self) -> Structure:
        """The edges."""
        return SimpleEdges()

    def forward(self, batch: Data, x: Tensor) -> Tensor:
        """``S_i = GNN(G)_i`` [N, channels]."""
        states: Tensor = self.norm(self.gnn(x, read_structure(batch, self.structure, "arc_index")))
        return states


class SubgraphExtractor(Extractor):
    """*k-subgraph*: the GNN over each node's k-hop ego graph, averaged. O(k sum of ego edges) per call."""

    @property
    def structure(self) -> Structure:
        """The ego graphs."""
        return EgoGraphs(self.k)

    def forward(self, batch: Data, x: Tensor) -> Tensor:
        """``S_i = mean_j GNN(ego_k(i))_j`` [N, channels]."""
        center, member = read_structure(batch, self.structure, "member_index")
        owner, source, target = read_structure(batch, self.structure, "member_arc_index")
        copies = center * x.size(0) + member
        edges = torch.searchsorted(copies, owner * x.size(0) + torch.stack([source, target]))
        states = self.gnn(x[member], edges)
        counts = torch.bincount(center, minlength=x.size(0))[:, None]
        pooled = x.new_zeros(x.shape, dtype=states.dtype).index_add(0, center, states) / counts
        normed: Tensor = self.norm(pooled)
        return normed
