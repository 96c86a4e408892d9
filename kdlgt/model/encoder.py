"""From raw features to states: linear for floats, embeddings for integers, degrees where there are no features."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data

from kdlgt.errors import ArgumentError, DtypeError, GraphError, require_at_least
from kdlgt.graph import Structure, read_structure
from kdlgt.model.degree import Degree

Features = int | tuple[int, ...]
"""An int is a width of float features; a tuple holds the vocabulary size of each integer column."""


@attrs.frozen
class AbsoluteEncoding:
    """A prepared field [N, width] that is added to the states through a linear layer of its own.

    Attributes:
        structure: what is prepared on each graph.
        field: name of the structure's field.
        width: its number of columns.
    """

    structure: Structure
    field: str
    width: int


class LinearEncoder(nn.Module):
    """``x W + b`` for float features [N, width].

    Wide sparse rows (bags of words, normalised to sum 1) have a norm far below 1, and torch's default bias would drown
    them: Glorot weights and a zero bias, as in graph convolutions. ``x`` may be a sparse COO tensor.

    Args:
        width: number of columns.
        hidden: width of the states.
        what: ``"node"`` or ``"edge"``, for messages.

    Raises:
        ArgumentError: a width below 1, or, from a call, features of another width.
        DtypeError: from a call, integer features, or floats of another dtype than the model's.
    """

    def __init__(self, width: int, hidden: int, *, what: str = "node") -> None:
        super().__init__()
        require_at_least("hidden", hidden, 1)
        require_at_least(f"{what} features", width, 1)
        self.what = what
        self.linear = nn.Linear(width, hidden)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        """States [N, hidden]; ``dropout`` is applied to the features."""
        x = x[:, None] if x.dim() == 1 else x
        self._check(x)
        if x.is_sparse:
            x = x.coalesce()
            kept = functional.dropout(x.values(), dropout, self.training)
            sparse = torch.sparse_coo_tensor(x.indices(), kept, x.shape, is_coalesced=True, check_invariants=False)
            product: Tensor = torch.sparse.mm(sparse, self.linear.weight.T)
            return product + self.linear.bias
        states: Tensor = self.linear(functional.dropout(x, dropout, self.training))
        return states

    def _check(self, x: Tensor) -> None:
        weight = self.linear.weight
        if not x.is_floating_point():
            raise DtypeError(
                f"{self.what} features have dtype {x.dtype}; this model was built for floats of width "
                f"{self.linear.in_features}: convert them with .float(), or build it with a tuple of vocabulary sizes"
            )
        if x.dtype != weight.dtype:
            raise DtypeError(
                f"{self.what} features have dtype {x.dtype} and the model has {weight.dtype}; convert the data "
                f"(.to({weight.dtype})) or the model ({_conversion(x.dtype)})"
            )
        if x.dim() != 2 or x.size(1) != self.linear.in_features:
            raise ArgumentError(
                f"{self.what} features have shape {tuple(x.shape)}; this model was built for "
                f"[{'N' if self.what == 'node' else 'E'}, {self.linear.in_features}]"
            )


def _conversion(dtype: torch.dtype) -> str:
    return "model.double()" if dtype == torch.float64 else f"model.to({dtype})"


class EmbeddingEncoder(nn.Module):
    """The sum of one embedding per integer column (atom types, bond types, ...).

    All columns share one table, each with its own range of rows.

    Args:
        sizes: vocabulary size of each column.
        hidden: width of the states.
        what: ``"node"`` or ``"edge"``, for messages.

    Raises:
        ArgumentError: a size below 1, or, from a call, another number of columns.
        DtypeError: from a call, float features.
        GraphError: from a call, a value outside its vocabulary.
    """

    offsets: Tensor
    sizes: Tensor

    def __init__(self, sizes: Iterable[int], hidden: int, *, what: str = "node") -> None:
        super().__init__()
        given = tuple(sizes)
        require_at_least("hidden", hidden, 1)
        require_at_least(f"number of integer {what} columns", len(given), 1)
        for size in given:
            require_at_least(f"vocabulary size of {what} features", size, 1)
        self.what = what
        self.table = nn.Embedding(sum(given), hidden)
        nn.init.normal_(self.table.weight, std=len(given) ** -0.5)
        counts = torch.tensor(given)
        self.register_buffer("sizes", counts, persistent=False)
        self.register_buffer("offsets", counts.cumsum(0) - counts, persistent=False)

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        """States [N, hidden] of integers [N] or [N, columns]; ``dropout`` is applied to the summed embeddings."""
        x = x[:, None] if x.dim() == 1 else x
        self._check(x)
        summed: Tensor = self.table(x.long() + self.offsets).sum(1)
        return functional.dropout(summed, dropout, self.training)

    def _check(self, x: Tensor) -> None:
        if x.is_floating_point() or x.is_complex():
            raise DtypeError(
                f"{self.what} features have dtype {x.dtype}; this model was built for integer columns with vocabulary "
                f"sizes {self.sizes.tolist()}: convert them with .long(), or build it with the width of float features"
            )
        if x.dim() != 2 or x.size(1) != self.sizes.numel():
            raise ArgumentError(
                f"{self.what} features have shape {tuple(x.shape)}; this model was built for {self.sizes.numel()} "
                "integer columns"
            )
        outside = (x < 0) | (x >= self.sizes)
        if bool(outside.any()):
            row, column = outside.nonzero()[0].tolist()
            raise GraphError(
                f"{self.what} feature column {column} holds {int(x[row, column])} (row {row}); allowed: "
                f"0..{int(self.sizes[column]) - 1}. Build the model with larger vocabulary sizes, or map unknown values"
            )


FeatureEncoder = LinearEncoder | EmbeddingEncoder


def feature_encoder(features: Features, hidden: int, *, what: str = "node") -> FeatureEncoder:
    """The encoder for float features of a width, or for integer columns with vocabulary sizes."""
    if isinstance(features, tuple):
        return EmbeddingEncoder(features, hidden, what=what)
    return LinearEncoder(features, hidden, what=what)


class DegreeEncoder(nn.Module):
    """An embedding of the node degree: states where there are no features, or Graphormer's centrality beside them.

    Args:
        hidden: width of the states.
        max_degree: degrees above share its entry.
        std: of the embedding at the start. A bag of words is far below 1, and would drown in an embedding of unit
            variance; beside embeddings of unit variance a small one would be slow to count.

    Raises:
        ArgumentError: ``max_degree`` or ``hidden`` below 1.
        NotPreparedError: from a call, a batch without prepared degrees.

    Source: Ying et al., Do Transformers Really Perform Badly for Graph Representation?, NeurIPS 2021, section 3.1.1.
    """

    def __init__(self, hidden: int, max_degree: int, std: float = 1.0) -> None:
        super().__init__()
        require_at_least("hidden", hidden, 1)
        require_at_least("max_degree", max_degree, 1)
        self.structure = Degree()
        self.max_degree = max_degree
        self.table = nn.Embedding(max_degree + 1, hidden)
        with torch.no_grad():
            self.table.weight.mul_(std)

    def forward(self, batch: Data) -> Tensor:
        """States [N, hidden]."""
        states: Tensor = self.table(read_structure(batch, self.structure, "degree").clamp(max=self.max_degree))
        return states


class NodeEncoder(nn.Module):
    """The first states: features, degree and absolute encodings, added.

    Args:
        features: encoder of ``batch.x``, or ``None`` when features are absent or to be ignored.
        degree: encoder of degrees, or ``None``.
        absolute: prepared encodings, each with a linear layer of its own.
        hidden: width of the states.
        dropout: dropout on the input features.

    Raises:
        ArgumentError: neither features nor degrees.
        GraphError: from a call, a batch without the features that the model was built for.
    """

    def __init__(
        self,
        features: FeatureEncoder | None,
        degree: DegreeEncoder | None,
        absolute: Iterable[AbsoluteEncoding] = (),
        *,
        hidden: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if features is None and degree is None:
            raise ArgumentError("NodeEncoder: neither features nor degree; give at least one of them")
        self.features = features
        self.degree = degree
        self.absolute = tuple(absolute)
        self.projections = nn.ModuleList(nn.Linear(one.width, hidden, bias=False) for one in self.absolute)
        self.dropout = dropout

    @property
    def structures(self) -> tuple[Structure, ...]:
        """Structures to prepare."""
        degree = () if self.degree is None else (self.degree.structure,)
        return (*degree, *(one.structure for one in self.absolute))

    def forward(self, batch: Data) -> Tensor:
        """States [N, hidden]."""
        parts: list[Tensor] = []
        if self.features is not None:
            parts.append(self.features(_required(batch, "x", "node"), self.dropout))
        if self.degree is not None:
            parts.append(self.degree(batch))
        for one, projection in zip(self.absolute, self.projections, strict=True):
            (weight,) = projection.parameters()
            parts.append(projection(read_structure(batch, one.structure, one.field).to(weight.dtype)))
        return torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]


class EdgeEncoder(nn.Module):
    """Edge features for the branches that take them.

    Args:
        features: encoder of ``batch.edge_attr``.
    """

    def __init__(self, features: FeatureEncoder) -> None:
        super().__init__()
        self.features = features

    def forward(self, batch: Data) -> Tensor:
        """Edge states [E, hidden]; :class:`GraphError` when the batch has no edge features."""
        states: Tensor = self.features(_required(batch, "edge_attr", "edge"))
        return states


def _required(batch: Data, name: str, what: str) -> Tensor:
    value = batch.get(name)
    if not isinstance(value, Tensor):
        raise GraphError(
            f"the batch has no {what} features ({name}); this model was built for them. Add them, or build the model "
            f"without ({'in_features' if what == 'node' else 'edge_features'}=None)"
        )
    return value
