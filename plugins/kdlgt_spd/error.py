"""How far the linear form of an ineffective encoding is from its exact bias, measured on a given graph."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.rpe import IneffectiveRPE


@attrs.frozen(eq=False)
class ApproximationError:
    """Errors per head, each a tensor [H]; row means, which cancel in the softmax, are removed from both biases first.

    Attributes:
        largest: largest absolute deviation of an entry.
        spectral: spectral norm of the deviation.
        relative: Frobenius norm of the deviation, relative to that of the exact bias.
        total_variation: mean over rows of the total variation distance between the softmaxes, with equal logits.
    """

    largest: Tensor
    spectral: Tensor
    relative: Tensor
    total_variation: Tensor


@torch.no_grad()
def approximation_error(rpe: IneffectiveRPE, graph: Data) -> ApproximationError:
    """Compare the two forms densely on one prepared graph: O(N^2) memory."""
    exact = rpe.exact(graph).to_dense().double()
    linear = rpe(graph).to_dense().double().expand_as(exact)
    variation = (exact.softmax(-1) - linear.softmax(-1)).abs().sum(-1).mean(-1) / 2
    exact, linear = exact - exact.mean(-1, keepdim=True), linear - linear.mean(-1, keepdim=True)
    deviation = linear - exact
    norm = torch.linalg.matrix_norm(exact).clamp_min(torch.finfo(torch.float64).tiny)
    return ApproximationError(
        deviation.abs().amax((1, 2)),
        torch.linalg.matrix_norm(deviation, ord=2),
        torch.linalg.matrix_norm(deviation) / norm,
        variation,
    )
