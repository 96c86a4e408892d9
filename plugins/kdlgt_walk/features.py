"""Graph random features: sparse features from terminating walks, whose products estimate a kernel without bias."""

from __future__ import annotations

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Kernel
from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.graph import Graph, Structure, read_structure
from kdlgt.graph.spectrum import normalised_laplacian
from kdlgt.rpe import RPE, KernelRPE
from kdlgt_walk.columns import Columns, bucket_of_node
from kdlgt_walk.walk import masked_log, one_hot


def _require_share(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 < value < 1:
        raise ArgumentError(f"{attribute.name} = {value!r}; allowed: a number between 0 and 1")


@attrs.frozen
class WalkFeatures(Structure):
    """Importance-weighted visits of terminating walks, in two independent ensembles.

    Each node starts ``walks`` walks, and a walk ends with probability ``halt`` before each step. Its load is multiplied
    by ``W_uv deg(u) / (1 - halt)`` on a step from u to v, with ``W = D^-1/2 A D^-1/2``, so that the expected load at v
    after l steps is ``(W^l)_iv``. Queries and keys use different walks: their product is unbiased on the diagonal too.

    Fields: ``query`` and ``key`` [N, length + 1, width], float64.
    """

    length: int
    width: int
    walks: int = 8
    halt: float = attrs.field(default=0.3, validator=_require_share)
    columns: Columns = "cells"
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        require_at_least("length", self.length, 0)
        require_at_least("width", self.width, 1)
        require_at_least("walks", self.walks, 1)

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Walk from all nodes at once: O(N walks / halt)."""
        bucket = bucket_of_node(graph, self.width, self.columns, self.seed)
        return {
            side: torch.from_numpy(self._loads(graph, bucket, np.random.default_rng([self.seed, ensemble])))
            for ensemble, side in enumerate(("query", "key"))
        }

    def _loads(self, graph: Graph, bucket: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        shape = (graph.num_nodes, self.length + 1, self.width)
        start = np.repeat(np.arange(graph.num_nodes), self.walks)
        place, load = start, np.full(len(start), 1.0 / self.walks)
        total = np.zeros(int(np.prod(shape)))
        for step in range(self.length + 1):
            cell = (start * shape[1] + step) * shape[2] + bucket[place]
            np.add.at(total, cell, load)
            going = (generator.random(len(place)) >= self.halt) & (graph.degree[place] > 0)
            start, place, load = start[going], place[going], load[going]
            following = _random_neighbour(graph, place, generator)
            load = load * np.sqrt(graph.degree[place] / graph.degree[following]) / (1.0 - self.halt)
            place = following
        return total.reshape(shape)


def _random_neighbour(graph: Graph, nodes: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    first = graph.adjacency.indptr[nodes].astype(np.int64)
    choice = generator.integers(0, graph.degree[nodes]) if len(nodes) else np.zeros(0, dtype=np.int64)
    following: NDArray[np.int64] = graph.adjacency.indices[first + choice].astype(np.int64)
    return following


@attrs.frozen(kw_only=True)
class GRFOptions:
    """Options of ``grf``.

    Attributes:
        length: walks longer than this are cut; the kernel has powers of W up to twice this.
        decay: the modulation starts at ``decay^l``; it is learned per head and length, and stays positive.
        walks: number of walks per node and side; the error falls as its square root.
        halt: probability that a walk ends before a step.
        width: number of columns K; on larger graphs visits are counted per bucket.
        columns: how nodes share columns on larger graphs: ``cells`` or ``hash``.
        seed: seed of the walks.
    """

    length: int = 4
    decay: float = attrs.field(default=0.5, validator=_require_share)
    walks: int = 8
    halt: float = 0.3
    width: int = 32
    columns: Columns = "cells"
    seed: int = 0


class GRFRPE(KernelRPE):
    """``exp(B) = F G^T`` with ``E[F] = E[G] = sum_l m_l W^l S``, so ``E[exp(B)] = M S S^T M^T``, ``M = sum_l m_l W^l``.

    Attributes:
        log_modulation: ``log m_l`` [H, length + 1].
    """

    def __init__(self, heads: int, options: GRFOptions) -> None:
        super().__init__(heads)
        self.options = options
        self.structure = WalkFeatures(
            options.length, options.width, options.walks, options.halt, options.columns, options.seed
        )
        steps = torch.arange(options.length + 1)
        self.log_modulation = nn.Parameter((float(np.log(options.decay)) * steps).repeat(heads, 1))

    @property
    def structures(self) -> tuple[Structure, ...]:
        """Visits of terminating walks."""
        return (self.structure,)

    def forward(self, batch: Data, x: Tensor | None = None) -> Kernel:
        """The kernel features [N, H, K]; ``x`` is not used."""
        return Kernel.from_features(self._features(batch, "query"), self._features(batch, "key"))

    def _features(self, batch: Data, side: str) -> Tensor:
        loads = read_structure(batch, self.structure, side).to(self.log_modulation)
        return torch.einsum("nlk,hl->nhk", loads, self.log_modulation.exp())


def grf_reference(rpe: RPE, data: Data) -> Tensor:
    """``log E[exp(B)]`` [H, N, N] float64 from dense powers of W.

    Raises:
        ArgumentError: ``rpe`` is no :class:`GRFRPE`.
    """
    if not isinstance(rpe, GRFRPE):
        raise ArgumentError(f"grf_reference got a {type(rpe).__name__}; expected a GRFRPE")
    graph = Graph.from_data(data, symmetrise=True)
    options = rpe.options
    normalised = np.diag((graph.degree > 0).astype(np.float64)) - normalised_laplacian(graph.adjacency).toarray()
    powers = np.stack([np.linalg.matrix_power(normalised, count) for count in range(options.length + 1)])
    mean = torch.einsum("hl,lij->hij", rpe.log_modulation.double().exp(), torch.from_numpy(powers))
    bucket = bucket_of_node(graph, options.width, options.columns, options.seed)
    mean = mean @ one_hot(bucket, options.width)
    return masked_log(mean @ mean.mT)
