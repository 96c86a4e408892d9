"""Structure is computed once per graph, on the CPU, and travels with the graph as plain tensors."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Iterable, Mapping

import attrs
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from kdlgt.errors import ArgumentError, GraphError, NotPreparedError
from kdlgt.graph.graph import Graph

_RESERVED = ("batch", "ptr", "face", "adj")


class Structure(abc.ABC):
    """What an encoding needs to know of a graph before any parameter: distances, eigenvectors, walks.

    Subclasses are frozen attrs classes, whose fields are the options that change the result. Encodings with equal
    structures share one computation and one copy on the graph.
    """

    @abc.abstractmethod
    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Compute the fields of one graph.

        Returns:
            Tensors by field name, the nodes first: [N, ...], with the same trailing sizes for every graph, so that
            PyG's loader concatenates them. A field whose name holds ``index`` is [2, P] node numbers, concatenated
            along the last dimension and shifted per graph. A per-graph number is a tensor [1].
        """

    @property
    def key(self) -> str:
        """Name of this structure on a graph: its class, and a digest of where that is defined and of its options."""
        kind = type(self)
        digest = hashlib.sha256(f"{kind.__module__}.{kind.__qualname__}:{self!r}".encode()).hexdigest()[:8]
        return f"{kind.__name__.lower()}_{digest}"


def _field(structure: Structure, name: str) -> str:
    return f"{structure.key}_{name}"


def read_structure(batch: Data, structure: Structure, name: str) -> Tensor:
    """Read one field of a structure from a prepared graph or batch.

    Raises:
        NotPreparedError: the batch did not go through :class:`Prepare` with this structure.
    """
    field = _field(structure, name)
    if field not in batch:
        raise NotPreparedError(
            f"the batch lacks {name!r} of {structure}; apply kdlgt.prepare(config.model), or "
            "kdlgt.Prepare(rpe.structures), as pre_transform or transform of the data set"
        )
    value: Tensor = batch[field]
    return value


def _unique(structures: Iterable[Structure | None]) -> tuple[Structure, ...]:
    return tuple({structure.key: structure for structure in structures if structure is not None}.values())


@attrs.frozen(eq=False, repr=False)
class Prepare(BaseTransform):  # type: ignore[misc]
    """Compute structures once per graph: a PyG transform that works as ``pre_transform`` and as ``transform``.

    Args:
        structures: what to compute; duplicates are computed once.
        symmetrise: make directed graphs undirected instead of refusing them; ``edge_index`` itself is not changed.

    Raises:
        GraphError: when called on a graph that :meth:`Graph.from_data` refuses, or whose features are not finite.
    """

    structures: tuple[Structure, ...] = attrs.field(converter=_unique)
    symmetrise: bool = False

    def forward(self, data: Data) -> Data:
        """Return a copy of ``data`` (PyG copies before the call) with the fields of every structure."""
        check_features(data)
        graph = Graph.from_data(data, symmetrise=self.symmetrise)
        for structure in self.structures:
            fields: object = structure.compute(graph)
            if not isinstance(fields, Mapping):
                raise ArgumentError(
                    f"{structure}: compute returned a {type(fields).__name__}; expected tensors by name, a dict"
                )
            for name, value in fields.items():
                _check_field(structure, name, value)
                data[_field(structure, name)] = value
        return data

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.structures))
        return f"Prepare([{inner}], symmetrise={self.symmetrise})"


def _check_field(structure: Structure, name: str, value: object) -> None:
    """Raise :class:`ArgumentError` for a field that PyG's loader would not batch as it is meant."""
    if any(word in name for word in _RESERVED):
        raise ArgumentError(f"{structure}: field {name!r} holds a word that PyG batches in its own way: {_RESERVED}")
    if not isinstance(value, Tensor):
        raise ArgumentError(
            f"{structure}: compute returned a {type(value).__name__} for {name!r}; expected a tensor (torch.from_numpy)"
        )
    if "index" in name:
        if value.dim() != 2 or value.dtype != torch.long:
            raise ArgumentError(
                f"{structure}: field {name!r} is {value.dtype} {tuple(value.shape)}; a field with 'index' in its name "
                "holds node numbers, int64 [2, P]"
            )
    elif value.dim() == 0:
        raise ArgumentError(f"{structure}: field {name!r} has no dimension; a number per graph is a tensor [1]")


def check_features(data: Data) -> None:
    """Raise :class:`GraphError` when node features hold NaN or inf, naming the first node."""
    x = data.get("x")
    if isinstance(x, Tensor) and x.is_floating_point() and not bool(torch.isfinite(x).all()):
        bad = (~torch.isfinite(x.flatten(1) if x.dim() > 1 else x[:, None])).any(1).nonzero().flatten()
        raise GraphError(
            f"node features x hold NaN or inf at {bad.numel()} of {x.size(0)} nodes, the first is node {int(bad[0])}; "
            "clean or impute them before training"
        )


def graph_ids(batch: Data) -> Tensor:
    """Graph number of each node [N]; zeros for a single graph."""
    ids = batch.get("batch")
    if isinstance(ids, Tensor):
        return ids
    return torch.zeros(int(batch.num_nodes or 0), dtype=torch.long, device=_device(batch))


def graph_ptr(batch: Data) -> Tensor:
    """First node of each graph, and N at the end [G + 1].

    Raises:
        GraphError: the batch vector is not sorted.
    """
    ptr = batch.get("ptr")
    if isinstance(ptr, Tensor):
        return ptr
    ids = batch.get("batch")
    if not isinstance(ids, Tensor):
        return torch.tensor([0, int(batch.num_nodes or 0)], device=_device(batch))
    if bool((ids[1:] < ids[:-1]).any()):
        raise GraphError("the batch vector is not sorted; sort the nodes by graph, or use PyG's Batch.from_data_list")
    counts = torch.bincount(ids)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _device(batch: Data) -> torch.device:
    edge_index = batch.get("edge_index")
    return edge_index.device if isinstance(edge_index, Tensor) else torch.device("cpu")
