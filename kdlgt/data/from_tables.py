"""Your own data from tables: an edge list, node features and labels become graphs."""

from __future__ import annotations

import pathlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.data.bundle import DEFAULT_METRIC, MISSING_CLASS, Level, RawData, Split, Task, feature_columns
from kdlgt.data.numbering import Numbering, number
from kdlgt.data.options import FilesOptions
from kdlgt.data.tables import Column, Table, column, is_text, length, locate, read_table
from kdlgt.errors import DataError

_KEYS = ("graph", "node", "source", "target", "split")


def from_tables(root: pathlib.Path | None, options: FilesOptions) -> RawData:
    """Graphs from the tables that the options name.

    Raises:
        DataError: a table or a column is missing, or an edge or a label names an unknown node.
    """
    edges = read_table(locate(root, options.edges))
    nodes = read_table(locate(root, options.nodes)) if options.nodes else None
    labels = read_table(locate(root, options.labels)) if options.labels else None
    level = _level(nodes, labels, options)
    numbering = number(edges, nodes, labels)
    task, values, classes = _encoded(*_label_table(nodes, labels, options))
    graphs = _graphs(edges, nodes, numbering, options)
    owners = _owners(numbering, labels, level)
    everything = _placed(values, owners, numbering, level)
    for graph, y in zip(graphs, everything.split(_label_counts(numbering, level)), strict=True):
        graph.y = y
    return RawData(
        graphs=graphs,
        level=level,
        task=task,
        out_features=len(classes) if task == "multiclass" else values.size(1),
        in_features=feature_columns(graph.get("x") for graph in graphs),
        edge_features=feature_columns((graph.get("edge_attr") for graph in graphs), "edge_attr"),
        metric=DEFAULT_METRIC[task] if options.metric == "auto" else options.metric,
        classes=classes,
        split=_split(labels if labels is not None else nodes, owners),
    )


def _level(nodes: Table | None, labels: Table | None, options: FilesOptions) -> Level:
    if options.level != "auto":
        return options.level
    return "node" if labels is None or "node" in labels else "graph"


def _label_table(nodes: Table | None, labels: Table | None, options: FilesOptions) -> tuple[list[Column], FilesOptions]:
    table, name = (nodes, options.nodes) if labels is None else (labels, options.labels)
    if table is None:
        raise DataError("data set 'files' has edges but no labels; name a table in `nodes` or `labels`")
    if not options.label:
        raise DataError("data set 'files': label = []; name one or more label columns")
    return [column(table, label, name) for label in options.label], options


def _encoded(columns: list[Column], options: FilesOptions) -> tuple[Task, Tensor, tuple[str, ...]]:
    """Labels as numbers, [R] for classes and [R, T] otherwise, and the names of the classes.

    A missing class is an empty cell or -1, but beside +1 alone -1 is a class.
    """
    task = options.task if options.task != "auto" else _task(columns)
    if task == "multiclass":
        return (task, *_classes(columns[0]))
    if any(map(is_text, columns)):
        raise DataError(f"the labels {list(options.label)} hold text; a {task} task needs numbers")
    return task, torch.from_numpy(np.stack([values.astype(np.float32) for values in columns], axis=1)), ()


def _task(columns: list[Column]) -> Task:
    if len(columns) > 1:
        return "multilabel" if all(map(_is_binary, columns)) else "regression"
    values = columns[0]
    return "multiclass" if is_text(values) or not (values[~np.isnan(values)] % 1).any() else "regression"


def _is_binary(values: Column) -> bool:
    return not is_text(values) and bool(np.isin(values[~np.isnan(values)], (0, 1)).all())


def _classes(values: Column) -> tuple[Tensor, tuple[str, ...]]:
    missing = values == "" if is_text(values) else np.isnan(values)
    if not is_text(values) and not np.isin(values[~missing], (-1, 1)).all():
        missing |= values == MISSING_CLASS
    names, code = np.unique(values[~missing].astype(str if is_text(values) else np.int64), return_inverse=True)
    labels = np.full(len(values), MISSING_CLASS, dtype=np.int64)
    labels[~missing] = code
    return torch.from_numpy(labels), tuple(map(str, names))


def _graphs(edges: Table, nodes: Table | None, numbering: Numbering, options: FilesOptions) -> list[Data]:
    """One graph per graph number, its edges in the order of the table."""
    starts = np.cumsum(numbering.counts) - numbering.counts
    owner = np.searchsorted(np.cumsum(numbering.counts), numbering.ends[0], side="right")
    by_graph = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=numbering.graphs).tolist()
    local = torch.from_numpy((numbering.ends - starts[owner])[:, by_graph])
    x = _features(nodes, options.label, options.features, "nodes", numbering.node_rows)
    edge_attr = _features(edges, (), options.edge_features, "edges", by_graph)
    parts = zip(
        local.split(sizes, dim=1),
        _cut(x, numbering.counts.tolist()),
        _cut(edge_attr, sizes),
        numbering.counts.tolist(),
        strict=True,
    )
    return [Data(edge_index=index, x=own, edge_attr=attr, num_nodes=count) for index, own, attr, count in parts]


def _cut(value: Tensor | None, sizes: list[int]) -> tuple[Tensor | None, ...]:
    return (None,) * len(sizes) if value is None else value.split(sizes)


def _features(
    table: Table | None, labels: tuple[str, ...], kind: str, what: str, order: NDArray[np.int64] | None
) -> Tensor | None:
    """All other columns [n, F]: categories as int64, numbers as float32."""
    names = [name for name in table or () if name not in _KEYS and name not in labels]
    if table is None or not names:
        return None
    columns = [table[name] for name in names]
    whole = [is_text(values) or values.dtype.kind == "i" for values in columns]
    if kind == "categories" or (kind == "auto" and all(whole)):
        chosen = np.stack([_categories(name, table[name]) for name in names], axis=1)
    else:
        text = [name for name in names if is_text(table[name])]
        if text:
            raise DataError(
                f"{what}: the columns {text} hold text, others numbers; encode them as 0/1 columns, or make all "
                "columns categories"
            )
        chosen = np.stack([values.astype(np.float32) for values in columns], axis=1)
    return torch.from_numpy(chosen if order is None else chosen[order])


def _categories(name: str, values: Column) -> NDArray[np.int64]:
    """Text is numbered in sorted order; integers count as they are."""
    if is_text(values):
        return np.unique(values.astype(str), return_inverse=True)[1].astype(np.int64)
    if values.dtype.kind != "i":
        raise DataError(f"column {name!r} holds fractions or gaps; categories are integers or text")
    return values.astype(np.int64)


def _owners(numbering: Numbering, labels: Table | None, level: Level) -> NDArray[np.int64]:
    """The node or graph to which each label row belongs."""
    if labels is None and level == "node" and numbering.node_rows is not None:
        return np.argsort(numbering.node_rows)
    if labels is None or numbering.label_rows is None or ("node" in labels) != (level == "node"):
        raise DataError(
            f"{level}-level labels need a table `labels` whose rows are named by a column {level!r} (not both)"
        )
    return numbering.label_rows


def _placed(values: Tensor, owners: NDArray[np.int64], numbering: Numbering, level: Level) -> Tensor:
    """Labels of all nodes or graphs; those without a row are missing."""
    total = int(numbering.counts.sum()) if level == "node" else numbering.graphs
    if len(np.unique(owners)) != len(owners):
        raise DataError(f"a {level} has several rows of labels; give one row each")
    missing = MISSING_CLASS if values.dtype == torch.int64 else torch.nan
    everything = values.new_full((total, *values.shape[1:]), missing)
    everything[torch.from_numpy(owners)] = values
    return everything


def _label_counts(numbering: Numbering, level: Level) -> list[int]:
    return numbering.counts.tolist() if level == "node" else [1] * numbering.graphs


def _split(table: Table | None, owners: NDArray[np.int64]) -> Split | None:
    """The public split of a column ``split`` with ``train``, ``val`` and ``test``; anything else is in no part."""
    if table is None or "split" not in table or not length(table):
        return None
    parts = {part: torch.from_numpy(np.sort(owners[table["split"] == part])) for part in ("train", "val", "test")}
    return Split(train=parts["train"], val=parts["val"], test=parts["test"])
