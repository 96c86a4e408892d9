from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch_geometric.data import Data

from kdlgt.data import RawData, Split
from kdlgt.data.split import fold_split, public_split, random_split
from kdlgt.errors import DataError

RATIOS = (0.7, 0.15, 0.15)


def node_data(labels: torch.Tensor, **given: Any) -> RawData:
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), y=labels, num_nodes=len(labels))
    fields: dict[str, Any] = {"task": "multiclass", "out_features": 5} | given
    return RawData(graphs=[data], level="node", **fields)


def balanced(size: int, classes: int = 3) -> RawData:
    return node_data(torch.arange(size) % classes)


def assert_partition(split: Split, expected: torch.Tensor) -> None:
    parts = torch.cat(list(split.parts.values()))
    assert torch.equal(parts.sort().values, expected)
    assert all(torch.equal(part, part.sort().values) for part in split.parts.values())


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(-1, 4), min_size=30, max_size=200), st.integers(0, 1000))
def test_random_splits_partition_the_labelled_rows(labels: list[int], seed: int) -> None:
    given = torch.tensor([0] * 10 + labels)
    split = random_split(node_data(given), RATIOS, seed)
    assert_partition(split, (given != -1).nonzero().flatten())
    assert split.seed == seed


def test_random_splits_are_stratified() -> None:
    labels = torch.tensor([0] * 800 + [1] * 200)
    split = random_split(node_data(labels), RATIOS, seed=3)
    assert {name: len(part) for name, part in split.parts.items()} == {"train": 700, "val": 150, "test": 150}
    for part in split.parts.values():
        assert abs(float((labels[part] == 1).float().mean()) - 0.2) < 0.01


def test_random_splits_are_seeded_and_leave_the_global_state_alone() -> None:
    raw = balanced(300)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, same, other = (random_split(raw, RATIOS, seed).train for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_class_with_one_member_is_no_obstacle() -> None:
    labels = torch.tensor([0] * 50 + [1] * 50 + [2])
    assert_partition(random_split(node_data(labels), RATIOS, seed=0), torch.arange(101))


def test_regression_and_multilabel_split_without_strata() -> None:
    targets = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    targets[3] = torch.nan
    targets[5, 0] = torch.nan
    expected = torch.tensor([row for row in range(40) if row != 3])
    assert_partition(random_split(node_data(targets, task="regression", out_features=2), RATIOS, seed=0), expected)
    binary = (targets > 0).float()
    assert_partition(
        random_split(node_data(binary, task="multilabel", out_features=2), RATIOS, seed=0), torch.arange(40)
    )


def test_a_number_of_training_labels_per_class() -> None:
    labels = torch.arange(100) % 4
    split = random_split(node_data(labels, train_per_class=5), RATIOS, seed=0)
    assert torch.bincount(labels[split.train]).tolist() == [5, 5, 5, 5]
    assert (len(split.val), len(split.test)) == (40, 40)
    with pytest.raises(DataError, match="class 0 has 25 labels"):
        random_split(node_data(labels, train_per_class=25), RATIOS, seed=0)


@pytest.mark.parametrize("folds", [2, 5, 10])
def test_folds_cover_everything_once(folds: int) -> None:
    raw = balanced(101)
    splits = [fold_split(raw, folds, fold, RATIOS, seed=4) for fold in range(folds)]
    assert torch.equal(torch.cat([split.test for split in splits]).sort().values, torch.arange(101))
    for fold, split in enumerate(splits):
        assert_partition(split, torch.arange(101))
        assert split.source == f"fold {fold} of {folds}"
        shares = torch.bincount(raw.graphs[0].y[split.test], minlength=3) / len(split.test)
        assert (shares - 1 / 3).abs().max() < 0.1


@pytest.mark.parametrize(("folds", "fold"), [(1, 0), (5, 5), (5, -1), (200, 0)])
def test_impossible_folds_are_refused(folds: int, fold: int) -> None:
    with pytest.raises(DataError, match=r"data\.folds"):
        fold_split(balanced(50), folds, fold, RATIOS, seed=0)


@pytest.mark.parametrize("ratios", [(0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (0.7, 0.4, -0.1)])
def test_impossible_ratios_are_refused(ratios: tuple[float, float, float]) -> None:
    with pytest.raises(DataError, match=r"data\.ratios"):
        random_split(balanced(50), ratios, seed=0)


@pytest.mark.parametrize("size", [1, 2])
def test_an_empty_part_is_refused(size: int) -> None:
    with pytest.raises(DataError, match="part of the split is empty"):
        random_split(node_data(torch.zeros(size, dtype=torch.long)), RATIOS, seed=0)


def test_public_splits_drop_rows_without_a_label() -> None:
    labels = torch.tensor([0, 1, -1, 0, 1, 0])
    own = Split(train=torch.tensor([2, 0, 1]), val=torch.tensor([3]), test=torch.tensor([5, 4]))
    split = public_split(node_data(labels, split=own))
    assert [part.tolist() for part in split.parts.values()] == [[0, 1], [3], [4, 5]]


def test_public_splits_must_exist_be_full_and_disjoint() -> None:
    with pytest.raises(DataError, match="no public split"):
        public_split(balanced(10))
    empty = Split(train=torch.tensor([0]), val=torch.tensor([], dtype=torch.long), test=torch.tensor([1]))
    with pytest.raises(DataError, match="the val part of the split is empty"):
        public_split(node_data(torch.arange(10) % 3, split=empty))
    overlapping = Split(train=torch.tensor([0, 1]), val=torch.tensor([1]), test=torch.tensor([2]))
    with pytest.raises(DataError, match="overlap"):
        public_split(node_data(torch.arange(10) % 3, split=overlapping))
