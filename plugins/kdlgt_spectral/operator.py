"""``B = a U diag(l) U^T``: the leading eigenpairs of any symmetric operator on the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Multiplicative, split_coefficient
from kdlgt.errors import ArgumentError, GraphError
from kdlgt.graph import Graph, Structure, graph_ids, read_structure
from kdlgt.graph.spectrum import normalised_laplacian, truncated_eigen, whole_clusters
from kdlgt.rpe import RPE, MultiplicativeRPE

Operator = Callable[[Graph], Any]
OperatorName = Literal["adjacency", "normalised_adjacency", "laplacian"]


def _adjacency(graph: Graph) -> csr_array:
    return graph.adjacency.astype(np.float64)


def _normalised_adjacency(graph: Graph) -> csr_array:
    isolated = diags_array((graph.degree > 0).astype(np.float64))
    return csr_array(isolated - normalised_laplacian(graph.adjacency))


def _laplacian(graph: Graph) -> csr_array:
    return normalised_laplacian(graph.adjacency)


OPERATORS: dict[OperatorName, Operator] = {
    "adjacency": _adjacency,
    "normalised_adjacency": _normalised_adjacency,
    "laplacian": _laplacian,
}


@attrs.frozen
class WeightedAdjacency:
    """The symmetric matrix of edge weights that stand in one field of the data, [E] or [E, 1].

    Raises:
        GraphError: from calling it on a graph without the field.
    """

    field: str

    def __call__(self, graph: Graph) -> csr_array:
        """``B_ij = (w_ij + w_ji) / 2``."""
        weight = graph.data.get(self.field)
        if not isinstance(weight, Tensor) or weight.numel() != graph.data.edge_index.size(1):
            edges = graph.data.edge_index.size(1)
            raise GraphError(
                f"the graph has no field {self.field!r} with one weight per edge ({edges}); check `weights`"
            )
        ends = graph.data.edge_index.cpu().numpy()
        shape = (graph.num_nodes, graph.num_nodes)
        matrix = csr_array(
            coo_array((weight.detach().cpu().double().flatten().numpy(), (ends[0], ends[1])), shape=shape)
        )
        return csr_array((matrix + matrix.T) / 2)


@attrs.frozen
class OperatorSpectrum(Structure):
    """The ``rank`` eigenpairs of largest magnitude of a symmetric operator.

    Fields: ``vectors`` [N, rank], ``values`` [1, rank] and ``error`` [1], the spectral norm of what is left out.

    Attributes:
        name: names the operator; structures with equal names and ranks share one computation.
        rank: m.
        operator: ``operator(graph)`` is a symmetric array, sparse array or ``LinearOperator``.
    """

    name: str
    rank: int
    operator: Operator = attrs.field(repr=False, eq=False)

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Solve; see :func:`kdlgt.graph.spectrum.truncated_eigen`."""
        spectrum = truncated_eigen(self.operator(graph), self.rank)
        return {
            "vectors": torch.from_numpy(spectrum.vectors),
            "values": torch.from_numpy(spectrum.values)[None],
            "error": torch.tensor([spectrum.error], dtype=torch.float64),
        }


@attrs.frozen(kw_only=True)
class OperatorOptions:
    """Options of ``operator``.

    Attributes:
        rank: number of eigenpairs m.
        operator: which matrix of the graph.
        weights: name of a data field of edge weights; when given, their symmetric matrix is the operator.
        amplitude: initial factor a, learned per head.
    """

    rank: int = 16
    operator: OperatorName = "normalised_adjacency"
    weights: str = ""
    amplitude: float = 1.0


class OperatorRPE(MultiplicativeRPE):
    """``B_h = a_h U_m diag(l) U_m^T``, within ``|a_h| |l_(m+1)|`` of ``a_h`` times the operator in spectral norm.

    Args:
        heads: number of heads H.
        options: see :class:`OperatorOptions`.
        structure: an operator of your own, instead of the one that the options name.
    """

    def __init__(self, heads: int, options: OperatorOptions, structure: OperatorSpectrum | None = None) -> None:
        super().__init__(heads, options.rank if structure is None else structure.rank)
        self.options = options
        self.structure = structure or _named(options)
        self.amplitude = nn.Parameter(torch.full((heads,), float(options.amplitude)))

    @property
    def structures(self) -> tuple[Structure, ...]:
        """The operator's leading eigenpairs."""
        return (self.structure,)

    def forward(self, batch: Data, x: Tensor | None = None) -> Multiplicative:
        """The factors [N, H, m]; ``x`` is not used."""
        vectors = read_structure(batch, self.structure, "vectors").to(self.amplitude)[:, None, :]
        values = read_structure(batch, self.structure, "values").to(self.amplitude)
        root = values.abs().sqrt()
        graph = graph_ids(batch)
        left, right = split_coefficient(self.amplitude[:, None])
        query = ((values.sign() * root)[:, None, :] * left)[graph]
        return Multiplicative(vectors * query, vectors * (root[:, None, :] * right)[graph])


def _named(options: OperatorOptions) -> OperatorSpectrum:
    if options.weights:
        return OperatorSpectrum(f"weights:{options.weights}", options.rank, WeightedAdjacency(options.weights))
    return OperatorSpectrum(options.operator, options.rank, OPERATORS[options.operator])


def operator_error(rpe: OperatorRPE, batch: Data) -> Tensor:
    """Spectral norm of ``a_h (operator - B_m)`` per graph and head [G, H], as stated by the decomposition."""
    return read_structure(batch, rpe.structure, "error")[:, None] * rpe.amplitude.detach().abs().double()


def operator_reference(rpe: RPE, data: Data) -> Tensor:
    """``B`` [H, N, N] float64: all eigenpairs by a dense solver, the largest magnitudes kept, clusters whole.

    Raises:
        ArgumentError: ``rpe`` is no :class:`OperatorRPE`.
    """
    if not isinstance(rpe, OperatorRPE):
        raise ArgumentError(f"operator_reference got a {type(rpe).__name__}; expected an OperatorRPE")
    graph = Graph.from_data(data, symmetrise=True)
    matrix = rpe.structure.operator(graph) @ np.eye(graph.num_nodes)
    return rpe.amplitude.double()[:, None, None] * torch.from_numpy(_truncate(matrix, rpe.structure.rank))


def _truncate(matrix: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(matrix)
    order = np.argsort(-np.abs(values), kind="stable")
    values, vectors = values[order], vectors[:, order]
    keep = whole_clusters(np.abs(values), rank, norm=float(np.abs(values[0])))
    kept: NDArray[np.float64] = (vectors[:, :keep] * values[:keep]) @ vectors[:, :keep].T
    return kept
