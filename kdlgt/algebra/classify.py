"""Classify a given matrix as the paper's section 4.2 does: additive, multiplicative with its rank, or ineffective."""

from __future__ import annotations

from typing import Literal

import attrs
import torch
from torch import Tensor

from kdlgt.algebra.decomposition import Decomposition, to_dense
from kdlgt.algebra.kinds import Additive, Multiplicative
from kdlgt.errors import ArgumentError


@attrs.frozen(eq=False)
class Classification:
    """What :func:`decompose` found.

    Attributes:
        kind: ``"additive"``, ``"multiplicative"`` or ``"ineffective"`` (no exact linear form of acceptable rank).
        rank: the numerical rank at the tolerance, the largest over the heads.
        error: the largest absolute deviation of ``value`` from the matrix; 0 when there is no value.
        value: the decomposition, or ``None`` when ineffective.
    """

    kind: Literal["additive", "multiplicative", "ineffective"]
    rank: int
    error: float
    value: Decomposition | None


def decompose(bias: Tensor, *, tolerance: float = 1e-6, max_rank: int | None = None) -> Classification:
    """Classify and decompose a given bias matrix.

    Args:
        bias: ``B`` [N, N] or [H, N, N], finite.
        tolerance: largest deviation allowed, relative to the largest absolute entry.
        max_rank: the largest rank that still counts as multiplicative; default ``N // 2``.

    Returns:
        The classification; additive is tried first, since an additive matrix also has rank 2.

    Raises:
        ArgumentError: the matrix is not square or not finite.
    """
    matrix = bias[None] if bias.dim() == 2 else bias
    if matrix.dim() != 3 or matrix.size(1) != matrix.size(2):
        raise ArgumentError(f"bias has shape {tuple(bias.shape)}; expected [N, N] or [H, N, N]")
    if not bool(torch.isfinite(matrix).all()):
        raise ArgumentError("bias holds NaN or inf; only finite matrices can be decomposed")
    scale = float(matrix.abs().amax()) if matrix.numel() else 0.0
    additive = _additive(matrix)
    error = _deviation(additive, matrix)
    left, singular, right = torch.linalg.svd(matrix, full_matrices=False)
    rank = int((singular > tolerance * scale).sum(-1).amax()) if matrix.numel() else 0
    if error <= tolerance * scale:
        return Classification("additive", rank, error, additive)
    if rank > (matrix.size(1) // 2 if max_rank is None else max_rank):
        return Classification("ineffective", rank, 0.0, None)
    query = (left * singular[:, None, :])[..., :rank].transpose(0, 1)
    value = Multiplicative(query, right[:, :rank].permute(2, 0, 1))
    return Classification("multiplicative", rank, _deviation(value, matrix), value)


def _additive(matrix: Tensor) -> Additive:
    """The least-squares additive fit: row means and column means around the grand mean."""
    row = matrix.mean(2) - matrix.mean((1, 2))[:, None]
    return Additive(row.T, matrix.mean(1).T)


def _deviation(value: Decomposition, matrix: Tensor) -> float:
    return float((to_dense(value) - matrix).abs().amax()) if matrix.numel() else 0.0
