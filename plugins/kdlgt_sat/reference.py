"""The slow, obvious way to SAT's bias: node by node, in float64."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, k_hop_subgraph, remove_self_loops, to_undirected

from kdlgt.rpe import RPE
from kdlgt_sat.extractor import SubgraphExtractor
from kdlgt_sat.rpe import SAT


def reference(rpe: RPE, data: Data) -> Tensor:
    """``B_hij = S_i Wq_h . S_j Wk_h / sqrt(m)`` [H, N, N] in float64, or ``tau_h`` times the cosine of the two.

    Gradients flow to ``rpe``.

    Args:
        rpe: a :class:`~kdlgt_sat.rpe.SAT`.
        data: one graph whose ``x`` [N, channels] are the node states.
    """
    sat = cast("SAT", rpe)
    x = data.x.double()
    edges = coalesce(to_undirected(remove_self_loops(data.edge_index)[0], num_nodes=x.size(0)))
    states = torch.stack([_one_node(sat, node, x, edges) for node in range(x.size(0))])
    normed = _double(sat.extractor.norm, states)
    query = _double(sat.query, normed).unflatten(-1, (sat.heads, sat.factor_width))
    key = _double(sat.key, normed).unflatten(-1, (sat.heads, sat.factor_width))
    product = torch.einsum("ihm,jhm->hij", query, key)
    if sat.log_temperature is None:
        scaled: Tensor = product / math.sqrt(sat.factor_width)
        return scaled
    lengths = query.norm(dim=-1).T[:, :, None] * key.norm(dim=-1).T[:, None, :]
    cosines: Tensor = product / lengths * sat.log_temperature.double().exp()[:, None, None]
    return cosines


def _one_node(sat: SAT, node: int, x: Tensor, edges: Tensor) -> Tensor:
    """``phi(v, G)`` of one node, before the norm."""
    if not isinstance(sat.extractor, SubgraphExtractor):
        return _double(sat.extractor.gnn, x, edges)[node]
    members, inner, _, _ = k_hop_subgraph(node, sat.extractor.k, edges, relabel_nodes=True, num_nodes=x.size(0))
    return _double(sat.extractor.gnn, x[members], inner).mean(0)


def _double(module: nn.Module, *inputs: Tensor) -> Tensor:
    """Run a module with its parameters and buffers in float64."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    doubled = {name: value.double() if value.is_floating_point() else value for name, value in tensors.items()}
    output: Tensor = functional_call(module, doubled, inputs)
    return output
