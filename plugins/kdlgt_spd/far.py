"""Linear approximations of a bias that is a function of distance, given the table of its values."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable

import attrs
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.data import Data

from kdlgt.algebra import Additive, Decomposition, Kernel, Multiplicative, Sum, log_inner
from kdlgt.errors import AlgebraError
from kdlgt.graph import Structure, graph_ids, graph_ptr, read_structure
from kdlgt.graph.landmarks import ABSENT, Landmarks
from kdlgt_spd.distances import DistanceBasis, entries_of


class FarField(abc.ABC):
    """A linear form of ``B_ij = t[d(i, j)]`` for any table t.

    Attributes:
        structures: what it reads.
        factor_width: number of columns m that it adds to queries and keys.
    """

    structures: tuple[Structure, ...] = ()
    factor_width: int = 0

    @abc.abstractmethod
    def value(self, batch: Data, table: Tensor, max_distance: int) -> Decomposition:
        """The approximation for a table [entries, H]."""


@functools.singledispatch
def at_pairs(value: Decomposition, pairs: Tensor) -> Tensor:
    """Entries [P, H] of a far field on pairs [2, P].

    Raises:
        AlgebraError: no far field has this kind.
    """
    raise AlgebraError(
        f"{type(value).__name__} has no entries on pairs; register them with kdlgt_spd.far.at_pairs.register"
    )


@at_pairs.register
def _(value: Multiplicative, pairs: Tensor) -> Tensor:
    return _in_chunks(lambda query, key: (value.query_factor[query] * value.key_factor[key]).sum(-1), value, pairs)


@at_pairs.register
def _(value: Kernel, pairs: Tensor) -> Tensor:
    query, key = value.log_query_features, value.log_key_features
    return _in_chunks(lambda i, j: log_inner(query[i], key[j]), value, pairs)


@at_pairs.register
def _(value: Additive, pairs: Tensor) -> Tensor:
    return value.row[pairs[0]] + value.column[pairs[1]]


@at_pairs.register
def _(value: Sum, pairs: Tensor) -> Tensor:
    first, *others = (at_pairs(term, pairs) for term in value.terms)
    return sum(others, first)


def _in_chunks(entries: Callable[[Tensor, Tensor], Tensor], value: Decomposition, pairs: Tensor) -> Tensor:
    """As many pairs at a time as nodes, so that no piece outgrows the factors."""
    chunks = zip(pairs[0].split(value.num_nodes), pairs[1].split(value.num_nodes), strict=True)
    return torch.cat([entries(query, key) for query, key in chunks])


@attrs.frozen
class ConstantField(FarField):
    """``B = 0`` up to a constant: every pair counts as ``farther``, and only what a correction covers is right."""

    def value(self, batch: Data, table: Tensor, max_distance: int) -> Additive:
        """The same row term for all nodes, which cancels in the softmax."""
        row = table[max_distance + 1].expand(int(batch.num_nodes or 0), -1)
        return Additive(row, torch.zeros_like(row))


@attrs.frozen
class SapdField(FarField):
    """The soft shortest path through landmarks a (softmin pooling), for any table.

    ``exp(B_ij) = sum_a exp(t[d(i,a)] - t[0] / 2) exp(t[d(a,j)] - t[0] / 2)``; with ``t[d] = b + c d`` each term is
    ``exp(b + c (d(i,a) + d(a,j)))``.
    """

    landmarks: Landmarks

    @property
    def structures(self) -> tuple[Structure, ...]:  # type: ignore[override]
        """The landmarks."""
        return (self.landmarks,)

    def value(self, batch: Data, table: Tensor, max_distance: int) -> Kernel:
        """The kernel [N, H, K]."""
        hops = read_structure(batch, self.landmarks, "hops")
        padded = pad(table - table[0] / 2, (0, 0, 0, 1))
        logs = padded[entries_of(hops, max_distance)].transpose(1, 2)
        logs = logs.masked_fill((hops == ABSENT)[:, None, :], -torch.inf)
        return Kernel(logs, logs)


@attrs.frozen
class NystromField(FarField):
    """``B = C W^+ C^T`` with C the bias towards the landmarks and W that among them (Williams and Seeger 2001).

    W is indefinite, and small eigenvalues of it blow the approximation up, so the pseudo-inverse is the smooth
    ``W (W^2 + (ridge |W|)^2 I)^-1``. Measured at 32 landmarks of 256 nodes, a ridge of 1e-2 is near the best on grids,
    paths, 6-regular and Barabasi-Albert graphs; 1e-3 more than doubles the error on the last two.
    """

    landmarks: Landmarks
    ridge: float = 1e-2

    @property
    def structures(self) -> tuple[Structure, ...]:  # type: ignore[override]
        """The landmarks."""
        return (self.landmarks,)

    @property
    def factor_width(self) -> int:  # type: ignore[override]
        """One column per landmark."""
        return self.landmarks.count

    def value(self, batch: Data, table: Tensor, max_distance: int) -> Multiplicative:
        """The factors [N, H, K]."""
        padded = pad(table, (0, 0, 0, 1))
        columns = padded[entries_of(read_structure(batch, self.landmarks, "hops"), max_distance)].transpose(1, 2)
        between = padded[entries_of(read_structure(batch, self.landmarks, "between"), max_distance)]
        inverse = _pseudo_inverse(between.permute(0, 3, 1, 2).double(), self.ridge).to(table.dtype)
        return _balanced(_times_core(columns, inverse, graph_ptr(batch)), columns, batch)


def _pseudo_inverse(matrix: Tensor, ridge: float) -> Tensor:
    """``W (W^2 + (ridge |W|)^2 I)^-1`` of symmetric [..., K, K], in double: the square doubles the digits needed."""
    size = torch.linalg.matrix_norm(matrix.detach())[..., None, None]
    floor = (ridge * size) ** 2 + torch.finfo(matrix.dtype).tiny
    eye = torch.eye(matrix.size(-1), dtype=matrix.dtype, device=matrix.device)
    solution: Tensor = torch.linalg.solve(matrix @ matrix + floor * eye, matrix)
    return solution


def _times_core(rows: Tensor, cores: Tensor, ptr: Tensor) -> Tensor:
    """Multiply the rows [N, H, K] of each graph by its own matrix [G, H, K, K]; no core is copied per node."""
    parts = rows.split(ptr.diff().tolist())
    return torch.cat([torch.einsum("nhk,hkl->nhl", part, core) for part, core in zip(parts, cores, strict=True)])


def _balanced(query: Tensor, key: Tensor, batch: Data) -> Multiplicative:
    """The same product with factors of equal size per graph and head: random features vary with ``|q + k|^2``."""
    graph, sizes = graph_ids(batch), []
    for side in (query.detach(), key.detach()):
        square = side.square().sum(-1)
        total = square.new_zeros(graph_ptr(batch).numel() - 1, square.size(1)).index_add(0, graph, square)
        sizes.append(total)
    usable = (sizes[0] > 0) & (sizes[1] > 0)
    ratio = torch.where(usable, sizes[1] / torch.where(usable, sizes[0], 1.0), 1.0).pow(0.25)[graph][:, :, None]
    return Multiplicative(query * ratio, key / ratio)


@attrs.frozen
class EigenField(FarField):
    """``B = U (sum_e t_e U^T A_e U) U^T``; see :class:`~kdlgt_spd.distances.DistanceBasis`."""

    basis: DistanceBasis

    @property
    def structures(self) -> tuple[Structure, ...]:  # type: ignore[override]
        """The basis."""
        return (self.basis,)

    @property
    def factor_width(self) -> int:  # type: ignore[override]
        """The rank of the basis."""
        return self.basis.rank

    def value(self, batch: Data, table: Tensor, max_distance: int) -> Multiplicative:
        """The factors [N, H, m]."""
        basis = read_structure(batch, self.basis, "basis").to(table)[:, None, :]
        cores = torch.einsum("geab,eh->ghab", read_structure(batch, self.basis, "cores").to(table), table)
        return _balanced(_times_core(basis.expand(-1, table.size(1), -1), cores, graph_ptr(batch)), basis, batch)
