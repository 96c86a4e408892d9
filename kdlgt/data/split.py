"""Random splits and folds: seeded, and stratified by class where there are classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit
from torch import Tensor

from kdlgt.data.bundle import MISSING_CLASS, RawData, Split
from kdlgt.errors import DataError

Integers = NDArray[np.int64]


def labels_of(raw: RawData) -> Tensor:
    """All labels, one row per node or graph: [n] or [n, T]."""
    return torch.cat([graph.y for graph in raw.graphs])


def labelled(labels: Tensor) -> Tensor:
    """Which rows have a label, or at least one target [n]."""
    if labels.is_floating_point():
        return ~labels.isnan().flatten(1).all(1)
    return labels != MISSING_CLASS


def public_split(raw: RawData) -> Split:
    """The data set's own split, without the rows that have no label.

    Raises:
        DataError: the data set has none, or a part of it is empty.
    """
    if raw.split is None:
        raise DataError('the data set has no public split; set `data.split` to "random" or "auto"')
    keep = labelled(labels_of(raw))
    parts = {name: part[keep[part]].sort().values for name, part in raw.split.parts.items()}
    return checked(Split(**parts, source=raw.split.source, seed=raw.split.seed), len(keep))


def random_split(raw: RawData, ratios: tuple[float, float, float], seed: int) -> Split:
    """A seeded random split of the labelled rows into training, validation and test by ``ratios``.

    Stratified for single-label tasks. With ``train_per_class`` the training part has that many rows of each class, and
    the rest is shared between validation and test in proportion to their ratios.

    Raises:
        DataError: ratios that are not positive or do not sum to 1, or an empty part.
    """
    if min(ratios) <= 0 or abs(sum(ratios) - 1) > 1e-6:
        raise DataError(f"data.ratios = {list(ratios)}; give three positive shares that sum to 1")
    rows, strata = _labelled_rows(raw)
    if raw.train_per_class:
        train = _per_class(strata, raw.train_per_class, seed)
        rest = np.setdiff1d(np.arange(len(rows)), train)
    else:
        train, rest = _halves(np.arange(len(rows)), strata, 1 - ratios[0], seed)
    val, test = _halves(rest, strata, ratios[2] / (ratios[1] + ratios[2]), seed + 1)
    return checked(_split(rows, (train, val, test), "random", seed), len(rows))


def fold_split(raw: RawData, folds: int, fold: int, ratios: tuple[float, float, float], seed: int) -> Split:
    """Fold ``fold`` of ``folds`` is the test part; the rest is shared by the training and validation ratios.

    Raises:
        DataError: fewer than 2 folds, no such fold, more folds than rows, or an empty part.
    """
    rows, strata = _labelled_rows(raw)
    if not 2 <= folds <= len(rows) or not 0 <= fold < folds:
        raise DataError(f"data.folds = {folds}, data.fold = {fold}; allowed: 2..{len(rows)} folds, numbered from 0")
    splitter = KFold if strata is None or _smallest(strata) < folds else StratifiedKFold
    chosen = splitter(folds, shuffle=True, random_state=seed)
    rest, test = list(chosen.split(rows[:, None], np.zeros(len(rows)) if strata is None else strata))[fold]
    train, val = _halves(rest, strata, ratios[1] / (ratios[0] + ratios[1]), seed)
    return checked(_split(rows, (train, val, test), f"fold {fold} of {folds}", seed), len(rows))


def checked(split: Split, total: int) -> Split:
    """Return the split.

    Raises:
        DataError: a part is empty, or parts overlap.
    """
    for name, part in split.parts.items():
        if not part.numel():
            sizes = {name: part.numel() for name, part in split.parts.items()}
            raise DataError(
                f"the {name} part of the split is empty (sizes {sizes} of {total} with a label); give more data, other "
                "`data.ratios` or another `data.split`"
            )
    everything = torch.cat(list(split.parts.values()))
    if everything.unique().numel() != everything.numel():
        raise DataError("the parts of the split overlap; training, validation and test must be disjoint")
    return split


def _labelled_rows(raw: RawData) -> tuple[Integers, Integers | None]:
    """Numbers of the rows with a label, and their classes when there is one class per row."""
    labels = labels_of(raw)
    rows = labelled(labels).nonzero().flatten()
    single = raw.task == "multiclass" or (raw.task == "binary" and labels.size(-1) == 1)
    return rows.numpy(), labels[rows].flatten().long().numpy() if single else None


def _split(rows: Integers, parts: tuple[Integers, ...], source: str, seed: int) -> Split:
    train, val, test = (torch.from_numpy(np.sort(rows[part])) for part in parts)
    return Split(train=train, val=val, test=test, source=source, seed=seed)


def _halves(rows: Integers, strata: Integers | None, share: float, seed: int) -> tuple[Integers, Integers]:
    """Split ``rows`` in two, the second with ``share`` of them (at least one); both empty-safe."""
    second = max(round(share * len(rows)), 1)
    if second >= len(rows):
        return rows[:0], rows
    splitter: Any = ShuffleSplit(1, test_size=second, random_state=seed)
    groups = None if strata is None else _large_groups(strata[rows])
    if groups is not None and len(np.unique(groups)) <= min(second, len(rows) - second):
        splitter = StratifiedShuffleSplit(1, test_size=second, random_state=seed)
    a, b = next(splitter.split(rows[:, None], groups))
    return rows[a], rows[b]


def _large_groups(classes: Integers) -> Integers:
    """Classes with a single member count as the most common class, since one row cannot be stratified."""
    values, inverse, counts = np.unique(classes, return_inverse=True, return_counts=True)
    return np.where(counts[inverse] < 2, values[counts.argmax()], classes).astype(np.int64)


def _smallest(classes: Integers) -> int:
    return int(np.unique(classes, return_counts=True)[1].min())


def _per_class(strata: Integers | None, count: int, seed: int) -> Integers:
    if strata is None:
        raise DataError("a number of training labels per class needs a single-label task")
    generator = np.random.default_rng(seed)
    chosen = []
    for value in np.unique(strata):
        members = np.flatnonzero(strata == value)
        if len(members) <= count:
            raise DataError(
                f"class {value} has {len(members)} labels; {count} per class for training leave none for a test"
            )
        chosen.append(generator.choice(members, count, replace=False))
    return np.sort(np.concatenate(chosen)).astype(np.int64)
