"""The one primitive of linear attention: sums of keys, kernels and values per segment, read out by queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import torch
from torch import Tensor

from kdlgt.attention.layout import Layout


@attrs.frozen(eq=False)
class _Chunk:
    """A slice of the kernel features; without a kernel the only chunk has neither side."""

    query: Tensor | None
    key: Tensor | None

    def expand_value(self, value: Tensor) -> Tensor:
        """``G_ja v_j`` flattened to [..., c e]."""
        return value if self.key is None else (self.key[..., :, None] * value[..., None, :]).flatten(-2)

    def expand_query(self, gradient: Tensor) -> Tensor:
        """``P_ia dy_i`` flattened to [..., c e]."""
        return gradient if self.query is None else (self.query[..., :, None] * gradient[..., None, :]).flatten(-2)

    def contract(self, wide: Tensor, kernel: Tensor | None) -> Tensor:
        """Sum [..., c e] over the kernel features with weights [..., c]."""
        if kernel is None:
            return wide
        return torch.einsum("...ce,...c->...e", wide.unflatten(-1, (kernel.size(-1), -1)), kernel)


def _chunks(query: Tensor | None, key: Tensor | None, features: int, width: int) -> Iterator[tuple[slice, _Chunk]]:
    """Cut the kernel features so that the expanded values are no wider than the feature map."""
    if query is None or key is None:
        yield slice(None), _Chunk(None, None)
        return
    step = max(1, features // width)
    for start in range(0, query.size(-1), step):
        part = slice(start, start + step)
        yield part, _Chunk(query[..., part], key[..., part])


class KernelSums(torch.autograd.Function):
    """``y_i = sum_a P_ia  phi_i^T ( sum_{j in segment(i)} G_ja  psi_j v_j^T )``.

    Memory is O(N (r + K + e)): the Khatri-Rao products [N, K r] never exist, and the backward pass computes the sums
    again instead of saving them.
    """

    @staticmethod
    def forward(
        ctx: Any, phi: Tensor, psi: Tensor, value: Tensor, query: Tensor | None, key: Tensor | None, layout: Layout
    ) -> Tensor:
        """Compute y [H, B, C, e]; phi, psi [H, B, C, r], value [H, B, C, e], kernel sides [H, B, C, K] or ``None``."""
        ctx.layout = layout
        ctx.save_for_backward(phi, psi, value, query, key)
        total = torch.zeros_like(value)
        for _, chunk in _chunks(query, key, phi.size(-1), value.size(-1)):
            state = layout.sum_segments(psi.transpose(-1, -2) @ chunk.expand_value(value))
            total += chunk.contract(phi @ state, chunk.query)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of phi, psi, value and the kernel sides."""
        phi, psi, value, query, key = ctx.saved_tensors
        layout: Layout = ctx.layout
        gradient = gradients[0].contiguous()
        d_phi, d_psi, d_value = torch.zeros_like(phi), torch.zeros_like(psi), torch.zeros_like(value)
        d_query = None if query is None else torch.empty_like(query)
        d_key = None if key is None else torch.empty_like(key)
        for part, chunk in _chunks(query, key, phi.size(-1), value.size(-1)):
            expanded = chunk.expand_value(value)
            incoming = chunk.expand_query(gradient)
            state = layout.sum_segments(psi.transpose(-1, -2) @ expanded)
            d_state = layout.sum_segments(phi.transpose(-1, -2) @ incoming)
            d_phi += incoming @ state.transpose(-1, -2)
            d_psi += expanded @ d_state.transpose(-1, -2)
            d_expanded = psi @ d_state
            d_value += chunk.contract(d_expanded, chunk.key)
            if d_query is not None and d_key is not None:
                d_query[..., part] = _per_feature(phi @ state, gradient)
                d_key[..., part] = _per_feature(d_expanded, value)
        return d_phi, d_psi, d_value, d_query, d_key, None


def _per_feature(wide: Tensor, narrow: Tensor) -> Tensor:
    """Inner products of [..., c e] with [..., e] for each kernel feature [..., c]."""
    return torch.einsum("...ce,...e->...c", wide.unflatten(-1, (-1, narrow.size(-1))), narrow)


def kernel_sums(
    phi: Tensor, psi: Tensor, value: Tensor, query: Tensor | None, key: Tensor | None, layout: Layout
) -> Tensor:
    """Apply :class:`KernelSums`, kernel sides expanded to the number of heads."""
    if query is not None and key is not None:
        query, key = (side.expand(phi.size(0), -1, -1, -1) for side in (query, key))
    result: Tensor = KernelSums.apply(phi, psi, value, query, key, layout)  # type: ignore[no-untyped-call]
    return result
