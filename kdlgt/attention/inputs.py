"""Checked inputs of attention: scaled, concatenated with the bias factors, in the accumulation dtype."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from kdlgt.algebra import Decomposition, Lowered, lower
from kdlgt.algebra.lowering import concatenate_heads
from kdlgt.algebra.traceable import traceable
from kdlgt.errors import ArgumentError, DtypeError


@traceable
@attrs.frozen(eq=False)
class AttentionInputs:
    """What both attentions work on, heads first.

    Attributes:
        query, key: [H, N, D] with ``query . key`` the logits up to key weights and kernels; D = d + m.
        value: [H, N, dv].
        key_log_weight: [H or 1, N], or ``None``.
        lowered: the rest of the bias.
        segment: [N] segment of each node, numbered from 0; ``None`` for a single graph.
        num_segments: how many there are, where their number is known without looking at values; else ``None``.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    key_log_weight: Tensor | None
    lowered: Lowered
    segment: Tensor | None
    num_segments: int | None = None


def gather_inputs(
    q: Tensor, k: Tensor, v: Tensor, bias: Decomposition | None, ptr: Tensor | None, scale: float | None
) -> AttentionInputs:
    """Check the arguments of attention and bring them to the common form.

    The scale of the logits is split: ``sqrt(scale)`` on queries and on keys, before the bias factors are appended.

    Raises:
        ArgumentError: shapes that do not fit together, or a ``ptr`` that does not cover the nodes.
        DtypeError: float64 meets float32.
    """
    _check_shapes(q, k, v)
    if bias is not None and not isinstance(bias, Decomposition):
        raise ArgumentError(
            f"bias is a {type(bias).__name__}; expected a value of kdlgt.algebra: call an encoding on its batch first, "
            "bias = rpe(batch)"
        )
    lowered = lower(bias) if bias is not None else Lowered(num_nodes=q.size(0))
    _check_bias(q, lowered)
    dtype = _accumulation_dtype(q, k, v, lowered)
    root = (q.size(2) ** -0.5 if scale is None else scale) ** 0.5
    query, key = q.to(dtype) * root, k.to(dtype) * root
    if lowered.multiplicative is not None:
        query = concatenate_heads(query, lowered.multiplicative.query_factor.to(dtype))
        key = concatenate_heads(key, lowered.multiplicative.key_factor.to(dtype))
    weight = None if lowered.additive is None else lowered.additive.column.T.to(dtype)
    part = None if lowered.partition is None else lowered.partition.part
    ptr = _checked_ptr(ptr, q)
    return AttentionInputs(
        query.transpose(0, 1),
        key.transpose(0, 1),
        v.to(dtype).transpose(0, 1),
        weight,
        lowered,
        _segments(q.size(0), ptr, part),
        ptr.numel() - 1 if ptr is not None and part is None else None,
    )


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.dim() == k.dim() == v.dim() == 3 or q.shape != k.shape or q.shape[:2] != v.shape[:2]:
        raise ArgumentError(
            f"attention got {shapes}; expected q and k [N, H, d] and v [N, H, dv], nodes packed along dim 0"
        )
    if 0 in q.shape or v.size(2) == 0:
        raise ArgumentError(f"attention got {shapes}; nodes, heads and widths must be at least 1")


def _check_bias(q: Tensor, lowered: Lowered) -> None:
    heads = {part.num_heads for part in lowered.parts} - {1}
    if lowered.num_nodes != q.size(0) or heads - {q.size(1)}:
        raise ArgumentError(
            f"the bias is over {lowered.num_nodes} nodes and {sorted(heads) or [1]} heads; "
            f"queries have {q.size(0)} nodes and {q.size(1)} heads"
        )


def _accumulation_dtype(q: Tensor, k: Tensor, v: Tensor, lowered: Lowered) -> torch.dtype:
    """float32 for half precisions, else the common dtype."""
    dtypes = {"q": q.dtype, "k": k.dtype, "v": v.dtype}
    for part in (lowered.multiplicative, lowered.additive):
        if part is not None:
            dtypes["bias"] = part.query_factor.dtype if hasattr(part, "query_factor") else part.column.dtype
    wide = {torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype for dtype in dtypes.values()}
    if len(wide) != 1 or not wide <= {torch.float32, torch.float64}:
        got = ", ".join(f"{name} {dtype}" for name, dtype in dtypes.items())
        raise DtypeError(f"attention got {got}; give one floating-point dtype: data.float() or model.double()")
    return wide.pop()


def _checked_ptr(ptr: Tensor | None, q: Tensor) -> Tensor | None:
    if ptr is None:
        return None
    if not _covers(ptr, q.size(0)):
        shown = ptr.tolist() if ptr.numel() < 10 else f"a tensor of shape {tuple(ptr.shape)}"
        raise ArgumentError(f"ptr = {shown}; expected increasing integers from 0 to the number of nodes {q.size(0)}")
    return ptr.to(q.device) if ptr.numel() > 2 else None


def _covers(ptr: Tensor, nodes: int) -> bool:
    """Whether the ptr is one over the nodes; a compiler would break its graph at the values, so it checks the form."""
    if ptr.dim() != 1 or ptr.numel() < 2 or ptr.is_floating_point():
        return False
    if torch.compiler.is_compiling():
        return True
    return int(ptr[0]) == 0 and int(ptr[-1]) == nodes and not bool((ptr[1:] < ptr[:-1]).any())


def _segments(nodes: int, ptr: Tensor | None, part: Tensor | None) -> Tensor | None:
    """Number the attention segments: nodes of one graph and one part of the partition attend to each other."""
    if ptr is not None:
        graph = torch.repeat_interleave(ptr[1:] - ptr[:-1], output_size=nodes)
        if part is None:
            return graph
        part = graph * (part.max() - part.min() + 1) + part - part.min()
    if part is None:
        return None
    numbered: Tensor = torch.unique(part, return_inverse=True)[1]
    return numbered
