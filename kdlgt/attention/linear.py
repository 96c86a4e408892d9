"""Linear attention with a decomposed bias: random features of the softmax, in logs until one exponential."""

from __future__ import annotations

import math

import attrs
import torch
from torch import Tensor

from kdlgt.algebra import Decomposition
from kdlgt.attention.inputs import AttentionInputs, gather_inputs
from kdlgt.attention.layout import Layout
from kdlgt.attention.near import add_near_field
from kdlgt.attention.sums import Blocks, segment_sums
from kdlgt.errors import ArgumentError
from kdlgt.features import FavorPlus, FeatureMap

DEFAULT_FEATURES = 128
"""Number of features r when no feature map is given."""

SEPARABLE_RANGE = 60.0
"""Largest sum of the log ranges of feature map and kernel for separate shifts: exp(-60) is safe in float32."""


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Decomposition | None = None,
    *,
    ptr: Tensor | None = None,
    features: FeatureMap | None = None,
    scale: float | None = None,
) -> Tensor:
    """Approximate ``softmax(scale q k^T + B) v`` within each graph, in time and memory linear in the number of nodes.

    Multiplicative parts of the bias are appended to queries and keys, additive parts are key log-weights (the row term
    cancels), kernel parts multiply the features row by row, sparse parts correct single pairs, a partition confines
    attention to its parts (DESIGN of the paper's section 4.2, mended). Cost O(N (d + m) r + N K r dv).

    Args:
        q: queries [N, H, d], all graphs packed along the nodes.
        k: keys [N, H, d].
        v: values [N, H, dv].
        bias: the RPE's decomposition over the N nodes, or ``None``.
        ptr: [G + 1] first node of each graph, then N (PyG's ``batch.ptr``); ``None`` for one graph.
        features: feature map of width d + m, m the bias's factor width; default FAVOR+ with 128 features, seed 0.
        scale: factor of ``q k^T``; default ``d ** -0.5``.

    Returns:
        [N, H, dv] in the dtype of ``v``; half precisions are accumulated in float32.

    Raises:
        ArgumentError: shapes, ``ptr`` or the feature map's width do not fit.
        DtypeError: float64 meets float32.

    Source: Choromanski et al., ICLR 2021; KDLGT, IJCAI 2023, equations 5 to 12.
    """
    with torch.autocast(q.device.type, enabled=False):
        inputs = gather_inputs(q, k, v, bias, ptr, scale)
        chosen = features if features is not None else _default_features(inputs.query)
        output = attend(inputs, chosen)
    return output.transpose(0, 1).to(v.dtype)


def _default_features(query: Tensor) -> FeatureMap:
    return FavorPlus(query.size(2), DEFAULT_FEATURES, query.size(0)).to(query.device)


def attend(inputs: AttentionInputs, features: FeatureMap) -> Tensor:
    """Linear attention on checked inputs [H, N, dv]."""
    if features.dim != inputs.query.size(2) or features.heads not in (1, inputs.query.size(0)):
        raise ArgumentError(
            f"the feature map has dim={features.dim} and heads={features.heads}; queries with the bias factors are "
            f"{inputs.query.size(2)} wide ({inputs.lowered.factor_width} from the bias), heads {inputs.query.size(0)}"
        )
    query, key, weight = features.precondition(inputs.query, inputs.key, inputs.key_log_weight)
    conditioned = attrs.evolve(inputs, query=query, key=key, key_log_weight=weight)
    layout = Layout.of(inputs.segment, inputs.query.size(1), inputs.num_segments)
    mixture = inputs.lowered.mixture
    if mixture is None:
        return _output(conditioned, features, layout)
    valid = mixture.valid.to(query.dtype)
    total = torch.zeros_like(inputs.value)
    for column, share in zip(mixture.column.permute(2, 1, 0), valid.T, strict=True):
        component = attrs.evolve(conditioned, key_log_weight=column if weight is None else column + weight)
        total = total + share[None, :, None] * _output(component, features, layout)
    return total / valid.sum(1)[None, :, None]


def _output(inputs: AttentionInputs, features: FeatureMap, layout: Layout) -> Tensor:
    """Attention output [H, N, dv] of one softmax."""
    sums, shift = segment_sums(_blocks(inputs, layout), features, layout, SEPARABLE_RANGE)
    sums, shift = layout.to_nodes(sums), layout.to_nodes(shift)
    if inputs.lowered.sparse is not None:
        sums = add_near_field(sums, shift, inputs, features)
    denominator = sums[..., -1:]
    return sums[..., :-1] / torch.where(denominator == 0, 1.0, denominator)


def _blocks(inputs: AttentionInputs, layout: Layout) -> Blocks:
    """Bring the operands to block layout."""
    value = torch.cat([inputs.value, torch.ones_like(inputs.value[..., :1])], dim=-1)
    weight = None if inputs.key_log_weight is None else inputs.key_log_weight[:, :, None]
    if weight is None and layout.has_empty_rows:
        weight = torch.zeros_like(value[:1, :, :1])
    kernel = inputs.lowered.kernel
    sides = None
    if kernel is not None:
        query, key = (
            layout.to_blocks(side.transpose(0, 1).to(value.dtype).expand(value.size(0), -1, -1), -math.inf)
            for side in (kernel.log_query_features, kernel.log_key_features)
        )
        sides = (query, key)
    return Blocks(
        layout.to_blocks(inputs.query),
        layout.to_blocks(inputs.key),
        layout.to_blocks(value),
        None if weight is None else layout.to_blocks(weight, -math.inf),
        sides,
    )
