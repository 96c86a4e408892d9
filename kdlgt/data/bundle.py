"""What a data set is to the rest: graphs with a task and a split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import attrs
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree

from kdlgt.errors import ArgumentError, DataError

Level = Literal["node", "graph"]
Task = Literal["multiclass", "binary", "multilabel", "regression"]
Metric = Literal["accuracy", "f1", "roc_auc", "average_precision", "mae", "rmse"]
Columns = int | tuple[int, ...] | None

MISSING_CLASS = -1
"""Class number of a missing label; missing floating-point targets are NaN."""

DEFAULT_METRIC: dict[Task, Metric] = {
    "multiclass": "accuracy",
    "binary": "roc_auc",
    "multilabel": "average_precision",
    "regression": "mae",
}


@attrs.frozen(eq=False, kw_only=True)
class Split:
    """Disjoint sorted numbers of training, validation and test nodes (or graphs), int64.

    Attributes:
        train, val, test: [n] each.
        source: ``public``, ``random`` or ``fold 2 of 10``.
        seed: the seed that drew it; ``None`` for a public split.
    """

    train: Tensor
    val: Tensor
    test: Tensor
    source: str = "public"
    seed: int | None = None

    @property
    def parts(self) -> dict[str, Tensor]:
        """The three parts by name."""
        return {"train": self.train, "val": self.val, "test": self.test}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the run folder."""
        return {"source": self.source, "seed": self.seed} | {name: part.tolist() for name, part in self.parts.items()}


@attrs.frozen(eq=False, kw_only=True)
class RawData:
    """What a data set plugin returns: graphs and their task, before they are validated, split and prepared.

    Labels are ``graph.y``, with one row per node (node level) or one row (graph level): class numbers [n] int64 for
    ``multiclass``, -1 where missing; [n, T] float for the other tasks, NaN where missing.

    Attributes:
        graphs: all graphs; exactly one at node level.
        level: whether labels belong to nodes or to graphs.
        task: kind of target.
        out_features: number of classes, or of targets T.
        in_features: width of float features, vocabulary sizes per integer column, or ``None`` without features.
        edge_features: the same for edges.
        metric: what validation and test report.
        classes: names of the classes, when known.
        split: the data set's own split, when it has one.
        train_per_class: a random split takes so many training labels of each class instead of a share; 0 is off.
    """

    graphs: Sequence[Data]
    level: Level
    task: Task
    out_features: int
    in_features: Columns = None
    edge_features: Columns = None
    metric: Metric = "accuracy"
    classes: tuple[str, ...] = ()
    split: Split | None = None
    train_per_class: int = 0


@attrs.frozen(eq=False, kw_only=True)
class DataBundle:
    """A data set ready for training: validated, split, and with the structure of the encodings on every graph.

    Attributes:
        name: name of the data set.
        graphs: all graphs; at node level exactly one, with ``train_mask``, ``val_mask`` and ``test_mask``. ``y`` as in
            :class:`RawData`: int64 [n] for ``multiclass`` (-1 missing), float [n, T] otherwise (NaN missing).
        split: which nodes or graphs train, validate and test; those without any label are in no part.
    """

    name: str
    level: Level
    task: Task
    out_features: int
    in_features: Columns
    edge_features: Columns
    metric: Metric
    graphs: tuple[Data, ...]
    split: Split
    classes: tuple[str, ...] = ()

    @property
    def graph(self) -> Data:
        """The one graph of a node-level data set.

        Raises:
            ArgumentError: at graph level.
        """
        if self.level != "node":
            raise ArgumentError(f"{self.name} has labels on graphs; use train, val and test")
        return self.graphs[0]

    @property
    def train(self) -> list[Data]:
        """Training graphs; at node level the one graph, whose ``train_mask`` counts."""
        return self._part(self.split.train)

    @property
    def val(self) -> list[Data]:
        """Validation graphs; at node level the one graph, whose ``val_mask`` counts."""
        return self._part(self.split.val)

    @property
    def test(self) -> list[Data]:
        """Test graphs; at node level the one graph, whose ``test_mask`` counts."""
        return self._part(self.split.test)

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger metric is a better one."""
        return self.metric not in ("mae", "rmse")

    def _part(self, numbers: Tensor) -> list[Data]:
        return list(self.graphs) if self.level == "node" else [self.graphs[number] for number in numbers.tolist()]

    def train_labels(self) -> Tensor:
        """Labels of the training part: [n] or [n, T]."""
        if self.level == "node":
            labels: Tensor = self.graph.y[self.split.train]
            return labels
        return torch.cat([graph.y for graph in self.train])

    def class_counts(self) -> Tensor:
        """Training labels per class [C]; for binary and multilabel targets, positives per target [T].

        Raises:
            ArgumentError: the task is a regression.
        """
        labels = self.train_labels()
        if self.task == "regression":
            raise ArgumentError(f"{self.name} is a regression; it has no classes to count")
        if self.task == "multiclass":
            return torch.bincount(labels[labels != MISSING_CLASS], minlength=self.out_features)
        return torch.nan_to_num(labels, nan=0.0).sum(0).long()

    def degree_histogram(self) -> Tensor:
        """Number of training nodes of each in-degree [max degree + 1], as PNA asks for."""
        return torch.bincount(
            torch.cat([degree(graph.edge_index[1], graph.num_nodes, dtype=torch.long) for graph in self.train])
        )


def feature_columns(values: Iterable[Tensor | None], what: str = "x") -> Columns:
    """Width of float features, vocabulary sizes of integer columns, or ``None`` when there are none.

    Raises:
        DataError: some graphs have features and others not, their dtypes or widths differ, or an integer is negative.
    """
    given = list(values)
    tensors = [value for value in given if value is not None]
    if not tensors:
        return None
    if len(tensors) != len(given):
        raise DataError(f"{what} is there on {len(tensors)} of {len(given)} graphs; give it to all or to none")
    kinds = {(value.is_floating_point(), value.size(-1), value.dim()) for value in tensors}
    if len(kinds) > 1 or tensors[0].dim() != 2:
        shapes = sorted({f"{value.dtype} {list(value.shape[1:])}" for value in tensors})
        raise DataError(
            f"{what} differs between graphs: {', '.join(shapes)} per row; one dtype and one width [n, F] is needed"
        )
    if tensors[0].is_floating_point():
        return tensors[0].size(1)
    return _vocabulary(torch.cat(tensors), what)


def _vocabulary(table: Tensor, what: str) -> tuple[int, ...]:
    if not table.numel():
        return (1,) * table.size(1)
    if int(table.min()) < 0:
        raise DataError(f"{what} holds the integer {int(table.min())}; categories are numbered from 0")
    return tuple(int(highest) + 1 for highest in table.amax(0))
