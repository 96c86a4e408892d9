"""GKAT's random walk graph-nodes kernel, in expectation over the walks."""

from __future__ import annotations

import math
from typing import Literal

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Kernel
from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.graph import Graph, Structure, read_structure
from kdlgt.rpe import RPE, KernelRPE
from kdlgt_walk.columns import Columns, bucket_of_node, indicator


@attrs.frozen
class WalkPowers(Structure):
    """Where simple random walks are after 0..length steps: field ``visits`` [N, length + 1, width], ``P^l S``, float64.

    A walk from a node without neighbours stays there.
    """

    length: int
    width: int
    columns: Columns = "cells"
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        require_at_least("length", self.length, 0)
        require_at_least("width", self.width, 1)

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """``length`` sparse products with an [N, width] matrix."""
        step = transition_matrix(graph)
        visits = [indicator(bucket_of_node(graph, self.width, self.columns, self.seed), self.width).toarray()]
        for _ in range(self.length):
            visits.append(step @ visits[-1])
        return {"visits": torch.from_numpy(np.stack(visits, axis=1))}


def transition_matrix(graph: Graph) -> csr_array:
    """``P = D^-1 A``, with 1 on the diagonal of nodes without neighbours."""
    inverse = 1.0 / np.maximum(graph.degree, 1)
    alone = (graph.degree == 0).astype(np.float64)
    return csr_array(diags_array(inverse) @ graph.adjacency.astype(np.float64) + diags_array(alone))


@attrs.frozen(kw_only=True)
class WalkOptions:
    """Options of ``walk``.

    Attributes:
        length: number of steps of a walk.
        discount: initial discount per step in (0, 1), learned per head.
        norm: features are divided by their ``l1`` or ``l2`` norm (with ``l2`` each node has kernel 1 with itself).
        width: number of columns K; exact GKAT where the graph has no more nodes, else visits are counted per bucket.
        columns: how nodes share columns on larger graphs: ``cells`` or ``hash``.
        seed: seed of ``hash``.
    """

    length: int = 4
    discount: float = 0.7
    norm: Literal["l1", "l2"] = "l2"
    width: int = 32
    columns: Columns = "cells"
    seed: int = 0


class WalkRPE(KernelRPE):
    """``exp(B_vw) = f_v . f_w / (|f_v| |f_w|)`` with discounted visits ``f_v = sum_l discount^l P^l[v, :] S``.

    The paper's ``f_v`` sums, over walks and weighted by their probability, the discounted times of their visits to each
    node; its expectation is the sum over l above.

    Raises:
        ArgumentError: an option is out of range.
    """

    def __init__(self, heads: int, options: WalkOptions) -> None:
        super().__init__(heads)
        if not 0 < options.discount < 1:
            raise ArgumentError(f"discount = {options.discount!r}; allowed: a number between 0 and 1")
        self.options = options
        self.structure = WalkPowers(options.length, options.width, options.columns, options.seed)
        self.logit = nn.Parameter(torch.full((heads,), math.log(options.discount / (1 - options.discount))))

    @property
    def structures(self) -> tuple[Structure, ...]:
        """Positions of walks after each number of steps."""
        return (self.structure,)

    def weights(self) -> Tensor:
        """``discount^l`` [H, length + 1]."""
        steps = torch.arange(self.options.length + 1, device=self.logit.device)
        return self.logit.sigmoid()[:, None] ** steps

    def forward(self, batch: Data, x: Tensor | None = None) -> Kernel:
        """The kernel features [N, H, K]; ``x`` is not used."""
        visits = read_structure(batch, self.structure, "visits").to(self.logit)
        features = torch.einsum("nlk,hl->nhk", visits, self.weights())
        order = 1 if self.options.norm == "l1" else 2
        features = features / torch.linalg.vector_norm(features, ord=order, dim=-1, keepdim=True)
        return Kernel.from_features(features, features)


def walk_reference(rpe: RPE, data: Data) -> Tensor:
    """``B`` [H, N, N] float64 from dense powers of P.

    Raises:
        ArgumentError: ``rpe`` is no :class:`WalkRPE`.
    """
    if not isinstance(rpe, WalkRPE):
        raise ArgumentError(f"walk_reference got a {type(rpe).__name__}; expected a WalkRPE")
    graph = Graph.from_data(data, symmetrise=True)
    options = rpe.options
    step = transition_matrix(graph).toarray()
    powers = torch.from_numpy(np.stack([np.linalg.matrix_power(step, count) for count in range(options.length + 1)]))
    bucket = bucket_of_node(graph, options.width, options.columns, options.seed)
    features = torch.einsum("hl,lij->hij", rpe.weights().double(), powers) @ one_hot(bucket, options.width)
    order = 1 if options.norm == "l1" else 2
    features = features / torch.linalg.vector_norm(features, ord=order, dim=-1, keepdim=True)
    return masked_log(features @ features.mT)


def one_hot(bucket: NDArray[np.int64], width: int) -> Tensor:
    """S [N, K] float64."""
    return torch.from_numpy(np.eye(width)[bucket])


def masked_log(kernel: Tensor) -> Tensor:
    """``log`` with -inf, and no gradient, at zero."""
    positive = kernel > 0
    return torch.where(positive, torch.where(positive, kernel, 1.0).log(), -math.inf)
