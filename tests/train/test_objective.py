from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.data.bundle import DataBundle, Split, Task
from kdlgt.errors import ConfigError
from kdlgt.train.objective import Objective, inverse_frequency

NAN = math.nan


def test_cross_entropy_leaves_missing_labels_out() -> None:
    output = torch.tensor([[2.0, 0.0], [0.0, 1.0], [5.0, -5.0]], requires_grad=True)
    loss = Objective("multiclass").loss(output, torch.tensor([0, -1, 1]))
    expected = (math.log1p(math.exp(-2.0)) + math.log1p(math.exp(10.0))) / 2
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-6)
    loss.backward()
    assert output.grad is not None
    assert torch.equal(output.grad[1], torch.zeros(2))


@pytest.mark.parametrize(("task", "expected"), [("multilabel", math.log1p(math.exp(-1.0))), ("regression", 1.0)])
def test_missing_targets_have_no_loss_and_no_gradient(task: Task, expected: float) -> None:
    output = torch.tensor([[1.0, 7.0]], requires_grad=True)
    target = torch.tensor([[1.0 if task == "multilabel" else 2.0, NAN]])
    loss = Objective(task).loss(output, target)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(expected)
    assert output.grad is not None
    assert float(output.grad[0, 1]) == 0.0


@pytest.mark.parametrize("task", ["multiclass", "binary", "multilabel", "regression"])
def test_a_batch_without_labels_has_loss_zero(task: Task) -> None:
    output = torch.randn(3, 1, requires_grad=True)
    target = torch.full((3,), -1) if task == "multiclass" else torch.full((3, 1), NAN)
    loss = Objective(task).loss(output, target)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert output.grad is not None
    assert torch.equal(output.grad, torch.zeros(3, 1))


def bundle(task: Task, targets: list[Tensor], out: int) -> DataBundle:
    graphs = tuple(Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0, dtype=torch.long), y=y) for y in targets)
    numbers = torch.arange(len(graphs))
    split = Split(train=numbers, val=numbers[:0], test=numbers[:0])
    return DataBundle(
        name="toy", level="graph", task=task, out_features=out, in_features=1, edge_features=None, metric="accuracy",
        graphs=graphs, split=split,
    )  # fmt: skip


def test_class_weights_balance_the_classes() -> None:
    labels = [0, 0, 0, 1, -1]
    weights = inverse_frequency(bundle("multiclass", [torch.tensor([label]) for label in labels], 3))
    assert weights.tolist() == pytest.approx([4 / 9, 4 / 3, 0.0])
    assert sum(float(weights[label]) for label in labels if label >= 0) == pytest.approx(4 * 2 / 3)


def test_positives_weigh_as_much_as_negatives() -> None:
    targets = [torch.tensor([[1.0, NAN]]), torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 0.0]])]
    assert inverse_frequency(bundle("multilabel", targets, 2)).tolist() == [2.0, 1.0]


def test_a_regression_has_no_class_weights() -> None:
    with pytest.raises(ConfigError, match="toy is a regression"):
        inverse_frequency(bundle("regression", [torch.tensor([[1.0]])], 1))
