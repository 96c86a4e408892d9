"""Your own data: saved PyG graphs, and the task that their labels describe."""

from __future__ import annotations

import contextlib
import pathlib
import pickle
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from kdlgt.data.bundle import DEFAULT_METRIC, MISSING_CLASS, Level, RawData, Split, Task, feature_columns
from kdlgt.data.from_tables import from_tables
from kdlgt.data.options import FilesOptions, PygOptions
from kdlgt.data.tables import locate
from kdlgt.errors import DataError


def files(root: pathlib.Path | None, options: FilesOptions) -> RawData:
    """Saved graphs, or tables of edges, nodes and labels.

    Raises:
        DataError: neither or both are named, or a file cannot be read.
    """
    if bool(options.graphs) == bool(options.edges):
        raise DataError(
            "data set 'files' needs either `graphs` (a .pt file with a list of Data) or `edges` (a CSV or Parquet "
            "table, with `nodes` and `labels`)"
        )
    if options.edges:
        return from_tables(root, options)
    return described(load_graphs(locate(root, options.graphs)), options)


def load_graphs(path: pathlib.Path) -> list[Data]:
    """Read a ``Data`` or a list of them, without running any code that the file may hold.

    Raises:
        DataError: the file is missing, broken, or holds anything else.
    """
    try:
        with _graphs_are_safe(), warnings.catch_warnings():
            # A foreign file can have another pickle protocol; what matters is whether it can be read.
            warnings.filterwarnings("ignore", message="Detected pickle protocol", category=UserWarning)
            content = torch.load(path, weights_only=True)
    except Exception as error:  # a foreign file can break the reader in any way
        raise DataError(
            f"{path} cannot be read as saved graphs: {_reason(error)}. Save plain graphs with "
            f"torch.save([data, ...], {path.name!r})"
        ) from error
    graphs = list(content) if isinstance(content, list | tuple) else [content]
    if not all(isinstance(graph, Data) for graph in graphs):
        kinds = sorted({type(graph).__name__ for graph in graphs})
        raise DataError(f"{path} holds {', '.join(kinds)}; expected a torch_geometric Data or a list of them")
    return graphs


def _reason(error: Exception) -> str:
    """Why a file was not read; torch's own text would advise to run the code in it."""
    if isinstance(error, pickle.UnpicklingError):
        return "it holds something else than graphs and tensors, which could run code when it is read"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _graphs_are_safe() -> contextlib.AbstractContextManager[None]:
    """Let torch's safe loader build PyG's classes.

    Only those that it does not know yet: leaving ``safe_globals`` forgets all that were given, PyG's own too.
    """
    known = torch.serialization.get_safe_globals()
    needed = [kind for kind in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if kind not in known]
    manager: contextlib.AbstractContextManager[None] = torch.serialization.safe_globals(needed)
    return manager


def described(given: Sequence[Data], options: FilesOptions | PygOptions) -> RawData:
    """Graphs with the task that their labels and the options describe.

    ``auto``: labels belong to nodes when there is one graph and a label for each node. Integer labels are classes,
    several columns of 0 and 1 are ``multilabel``, anything else is a regression. A ``train_mask`` with its companions
    is the public split; of several splits in columns, the first is taken.

    Raises:
        DataError: no graphs, or no labels.
    """
    graphs = [_single_precision(graph) for graph in given]
    if not graphs or not all(isinstance(graph.get("y"), Tensor) for graph in graphs):
        raise DataError("the data set has no graphs, or graphs without labels y; each needs a tensor y")
    level = options.level if options.level != "auto" else _level(graphs)
    labels = [_rows(graph, level) for graph in graphs]
    task = options.task if options.task != "auto" else _task(torch.cat(labels))
    for graph, label in zip(graphs, labels, strict=True):
        graph.y = label.flatten() if task == "multiclass" else label
    everything = torch.cat([graph.y for graph in graphs])
    return RawData(
        split=_mask_split(graphs[0]) if level == "node" else None,
        graphs=graphs,
        level=level,
        task=task,
        out_features=_classes(everything) if task == "multiclass" else everything.size(1),
        in_features=feature_columns(graph.x for graph in graphs),
        edge_features=feature_columns((graph.edge_attr for graph in graphs), "edge_attr"),
        metric=DEFAULT_METRIC[task] if options.metric == "auto" else options.metric,
    )


def _single_precision(graph: Data) -> Data:
    """A copy with two-dimensional features and labels; float64 and truth values become float32."""
    result = Data.from_dict(graph.to_dict())
    for name in ("x", "edge_attr", "y"):
        value = graph.get(name)
        if isinstance(value, Tensor):
            value = value.to_dense() if value.layout != torch.strided else value
            result[name] = value.float() if value.dtype in (torch.float64, torch.float16, torch.bool) else value
            if name != "y" and value.dim() == 1:
                result[name] = result[name][:, None]
    return result


def _level(graphs: Sequence[Data]) -> Level:
    first = graphs[0]
    return "node" if len(graphs) == 1 and first.y.dim() and first.y.size(0) == first.num_nodes else "graph"


def _rows(graph: Data, level: Level) -> Tensor:
    labels: Tensor = graph.y
    return labels.reshape(labels.size(0), -1) if level == "node" else labels.reshape(1, -1)


def _task(labels: Tensor) -> Task:
    if not labels.is_floating_point():
        return "multiclass" if labels.size(1) == 1 else "multilabel"
    known = labels[~labels.isnan()]
    return "multilabel" if labels.size(1) > 1 and bool(((known == 0) | (known == 1)).all()) else "regression"


def _classes(labels: Tensor) -> int:
    known = torch.nan_to_num(labels, nan=MISSING_CLASS)
    return max(int(known.max()) + 1, 1)


def _mask_split(graph: Data) -> Split | None:
    masks: dict[str, Any] = {name: graph.get(f"{name}_mask") for name in ("train", "val", "test")}
    if any(mask is None for mask in masks.values()):
        return None
    first = {name: mask if mask.dim() == 1 else mask[:, 0] for name, mask in masks.items()}
    return Split(**{name: mask.nonzero().flatten() for name, mask in first.items()})
