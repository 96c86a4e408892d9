"""``B = a n U_m f(L) U_m^T`` over the extreme eigenpairs of the normalised Laplacian."""

from __future__ import annotations

import math
from typing import Literal

import attrs
import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Multiplicative, split_coefficient
from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.graph import Graph, Structure, graph_ids, graph_ptr, read_structure
from kdlgt.graph.spectrum import End, laplacian_spectrum, whole_clusters
from kdlgt.rpe import RPE, MultiplicativeRPE


@attrs.frozen
class LaplacianSpectrum(Structure):
    """The ``rank`` extreme eigenpairs of the normalised Laplacian, null vectors left out.

    Fields: ``vectors`` [N, rank] and ``values`` [1, rank], float64, zero-padded.
    """

    rank: int
    end: End = "smallest"

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Solve per component; see :func:`kdlgt.graph.spectrum.laplacian_spectrum`."""
        spectrum = laplacian_spectrum(graph, self.rank, self.end)
        return {"vectors": torch.from_numpy(spectrum.vectors), "values": torch.from_numpy(spectrum.values)[None]}


@attrs.frozen(kw_only=True)
class SpectralOptions:
    """Options of ``spectral``.

    Attributes:
        rank: number of eigenpairs m.
        end: ``smallest`` keeps smooth vectors, ``largest`` oscillating ones.
        function: f of an eigenvalue l: ``heat`` exp(-t l) with t > 0 learned per head; ``walk`` (1 - l)^steps;
            ``resistance`` 1 / l, the pseudo-inverse; ``learned`` a small network per head.
        time: initial diffusion time t of ``heat``.
        steps: number of steps of ``walk``.
        hidden: hidden width of the network of ``learned``.
        amplitude: initial factor a, learned per head.
        per_node: multiply by the number of nodes n of the graph, so that the size of B does not fall with n
            (entries of unit vectors fall as n^-1/2).
    """

    rank: int = 16
    end: End = "smallest"
    function: Literal["heat", "walk", "resistance", "learned"] = "heat"
    time: float = 1.0
    steps: int = 2
    hidden: int = 16
    amplitude: float = 0.1
    per_node: bool = True


class SpectralRPE(MultiplicativeRPE):
    """``B_h = a_h n U_m f_h(L_m) U_m^T``, exact for the m eigenpairs that it keeps.

    Every coefficient is split evenly over queries and keys: random features vary less.

    Raises:
        ArgumentError: an option is out of range.
    """

    def __init__(self, heads: int, options: SpectralOptions) -> None:
        super().__init__(heads, options.rank)
        require_at_least("steps", options.steps, 1)
        require_at_least("hidden", options.hidden, 1)
        if not options.time > 0:
            raise ArgumentError(f"time = {options.time!r}; allowed: a number > 0")
        self.options = options
        self.structure = LaplacianSpectrum(options.rank, options.end)
        self.amplitude = nn.Parameter(torch.full((heads,), float(options.amplitude)))
        if options.function == "heat":
            self.log_time = nn.Parameter(torch.full((heads,), math.log(options.time)))
        if options.function == "learned":
            self._build_network(heads, options.hidden)

    def _build_network(self, heads: int, hidden: int) -> None:
        """One hidden layer with fixed, staggered thresholds over [0, 2]: nothing is drawn from a random state."""
        thresholds = torch.linspace(0.0, 2.0, hidden)
        self.inner = nn.Parameter(torch.full((heads, hidden), -2.0))
        self.offset = nn.Parameter((2.0 * thresholds).expand(heads, hidden).clone())
        self.outer = nn.Parameter(torch.full((heads, hidden), 1.0 / hidden))

    @property
    def structures(self) -> tuple[Structure, ...]:
        """The Laplacian's extreme eigenpairs."""
        return (self.structure,)

    def response(self, eigenvalues: Tensor) -> Tensor:
        """``f_h(l)`` [..., H] of eigenvalues [...]; 0 at l = 0, which marks padded columns."""
        real = (eigenvalues > 0)[..., None]
        level = torch.where(real, eigenvalues[..., None], 1.0)
        function = self.options.function
        if function == "heat":
            value = torch.exp(-self.log_time.exp() * level)
        elif function == "walk":
            value = (1.0 - level).pow(self.options.steps)
        elif function == "resistance":
            value = 1.0 / level
        else:
            hidden = torch.tanh(self.inner * level[..., None] + self.offset)
            value = (self.outer * hidden).sum(-1)
        return torch.where(real, value, 0.0)

    def forward(self, batch: Data, x: Tensor | None = None) -> Multiplicative:
        """The factors [N, H, m]; ``x`` is not used."""
        vectors = read_structure(batch, self.structure, "vectors").to(self.amplitude)[:, None, :]
        values = read_structure(batch, self.structure, "values").to(self.amplitude)
        query, key = self._split(self.response(values).transpose(1, 2))
        if self.options.per_node:
            sizes = graph_ptr(batch).diff().to(query)[:, None, None].sqrt()
            query, key = query * sizes, key * sizes
        graph = graph_ids(batch)
        left, right = split_coefficient(self.amplitude[:, None])
        return Multiplicative(vectors * (query * left)[graph], vectors * (key * right)[graph])

    def _split(self, response: Tensor) -> tuple[Tensor, Tensor]:
        """``f = query * key`` [G, H, m]."""
        if self.options.function == "learned":
            return split_coefficient(response)
        # |f| is positive on real columns unless 1 - l = 0, where f has no parameter: the root's gradient is never used.
        positive = response != 0
        root = torch.where(positive, torch.where(positive, response, 1.0).abs().sqrt(), 0.0)
        return response.sign() * root, root


def spectral_reference(rpe: RPE, data: Data) -> Tensor:
    """``B`` [H, N, N] float64 from a dense eigendecomposition of the whole Laplacian, null space left out.

    Raises:
        ArgumentError: ``rpe`` is no :class:`SpectralRPE`.
    """
    if not isinstance(rpe, SpectralRPE):
        raise ArgumentError(f"spectral_reference got a {type(rpe).__name__}; expected a SpectralRPE")
    adjacency = Graph.from_data(data, symmetrise=True).adjacency.toarray().astype(np.float64)
    values, vectors = _dense_eigenpairs(adjacency, rpe.options.rank, rpe.options.end)
    response = rpe.response(torch.from_numpy(values).to(rpe.amplitude)).double().T
    size = adjacency.shape[0] if rpe.options.per_node else 1
    basis = torch.from_numpy(vectors)
    return size * rpe.amplitude.double()[:, None, None] * (basis * response[:, None, :]) @ basis.T


def _dense_eigenpairs(adjacency: np.ndarray, rank: int, end: End) -> tuple[np.ndarray, np.ndarray]:
    degree = adjacency.sum(1)
    root = np.where(degree > 0, 1.0 / np.sqrt(np.maximum(degree, 1)), 0.0)
    laplacian = np.diag((degree > 0).astype(np.float64)) - root[:, None] * adjacency * root
    values, vectors = np.linalg.eigh(laplacian)
    real = values > 1e-10
    values, vectors = values[real], vectors[:, real]
    order = np.argsort(values if end == "smallest" else -values, kind="stable")
    values, vectors = values[order], vectors[:, order]
    keep = whole_clusters(values, rank, norm=2.0)
    return values[:keep], vectors[:, :keep]
