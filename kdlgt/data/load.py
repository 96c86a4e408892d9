"""From the ``[data]`` table of a config to a data set ready for training."""

from __future__ import annotations

import copy
import pathlib
from typing import cast

import torch
from torch_geometric.data import Data

from kdlgt.config.schema import DataConfig
from kdlgt.data.bundle import DataBundle, RawData, Split
from kdlgt.data.preparation import prepared
from kdlgt.data.raw import data_root
from kdlgt.data.split import fold_split, public_split, random_split
from kdlgt.data.validation import validated
from kdlgt.errors import DataError, PluginError
from kdlgt.graph import Prepare
from kdlgt.registry import DatasetSpec, Registry


def load_data(
    config: DataConfig,
    *,
    root: pathlib.Path | None = None,
    prepare: Prepare | None = None,
    seed: int = 0,
    registry: Registry,
    progress: bool = False,
) -> DataBundle:
    """Read, validate, split and prepare a data set.

    Args:
        config: which data set, and how it is split.
        root: folder of raw data sets, read only; ``None`` takes ``$KDLGT_DATA``, and a download without that.
        prepare: computes the structure of the model's encodings.
        seed: seed of the split, unless the config has its own.
        registry: where data sets come from.
        progress: show a progress bar for the structure.

    Raises:
        UnknownNameError: no plugin provides the data set.
        DataError: the data set cannot be read, or not split as asked.
        GraphError: a graph is broken; the message has its number.
    """
    raw = validated(_read(config, root, registry), symmetrise=config.symmetrise)
    split = choose_split(raw, config, seed)
    if raw.task == "multiclass" and raw.out_features < 2:
        only = f" ({raw.classes[0]!r})" if raw.classes else ""
        raise DataError(f"{config.dataset.name}: all labels are of one class{only}; a classification needs two or more")
    graphs = prepared(raw.graphs, prepare, workers=config.prepare_workers, cache=config.cache, progress=progress)
    return DataBundle(
        name=config.dataset.name,
        level=raw.level,
        task=raw.task,
        out_features=raw.out_features,
        in_features=raw.in_features,
        edge_features=raw.edge_features,
        metric=raw.metric,
        graphs=_masked(graphs, split) if raw.level == "node" else tuple(graphs),
        split=split,
        classes=raw.classes,
    )


def choose_split(raw: RawData, config: DataConfig, seed: int) -> Split:
    """The fold, the public split or a random split, as the config asks.

    Raises:
        DataError: folds and a public split asked for at once, or the split is not possible.
    """
    own = seed if config.split_seed is None else config.split_seed
    if config.folds:
        if config.split == "public":
            raise DataError('data.folds and data.split = "public" exclude each other; remove one of them')
        return fold_split(raw, config.folds, config.fold, config.ratios, own)
    if config.split == "public" or (config.split == "auto" and raw.split is not None):
        return public_split(raw)
    return random_split(raw, config.ratios, own)


def _read(config: DataConfig, root: pathlib.Path | None, registry: Registry) -> RawData:
    spec = cast("DatasetSpec", registry.spec("dataset", config.dataset.name))
    options = spec.options() if config.dataset.options is None else config.dataset.options
    raw = spec.factory(data_root(root), options)
    if not isinstance(raw, RawData):
        got = type(raw).__name__
        raise PluginError(f"data set {spec.name!r} of {spec.owner} returned {got}; expected kdlgt.data.RawData")
    return raw


def _masked(graphs: tuple[Data, ...], split: Split) -> tuple[Data, ...]:
    graph = copy.copy(graphs[0])
    for name, part in split.parts.items():
        mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
        mask[part] = True
        graph[f"{name}_mask"] = mask
    return (graph,)
