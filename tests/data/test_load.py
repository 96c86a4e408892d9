"""From a config to a bundle, and the bundle itself."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from kdlgt.config.schema import Component, DataConfig
from kdlgt.data import DataBundle, RawData, load_data
from kdlgt.data.options import ZincOptions
from kdlgt.errors import ArgumentError, DataError, PluginError, UnknownNameError
from kdlgt.graph import Prepare, generate, read_structure
from kdlgt.registry import DatasetSpec, Registry, hookimpl

Load = Any


def test_every_data_set_is_listed_with_its_summary(registry: Registry) -> None:
    assert set(registry.dataset_specs) == {
        "citeseer", "cora", "cox2_md", "digits", "distance", "files", "karate", "lastfm-asia", "mutag", "nci1",
        "ogbg-molhiv", "proteins", "pubmed", "pyg", "regular", "zinc",
    }  # fmt: skip
    assert all(spec.summary for spec in registry.dataset_specs.values())


def test_listing_data_sets_does_not_import_torch() -> None:
    code = "import sys, kdlgt.data.plugin as p; p.kdlgt_datasets(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_default_config_is_digits(registry: Registry) -> None:
    assert load_data(DataConfig(), registry=registry).name == "digits"


def test_a_node_level_bundle(load: Load, degrees: Any) -> None:
    bundle = load("karate", prepare=Prepare([degrees()]))
    masks = torch.stack([bundle.graph[f"{part}_mask"] for part in ("train", "val", "test")])
    assert (masks.sum(0) == 1).all()
    assert bundle.train == bundle.val == bundle.test == [bundle.graph]
    assert read_structure(bundle.graph, degrees(), "degree").sum() == 156
    assert torch.equal(bundle.degree_histogram(), torch.bincount(torch.bincount(bundle.graph.edge_index[1])))


def test_a_graph_level_bundle_goes_through_the_loader(load: Load, raw: pathlib.Path, degrees: Any) -> None:
    bundle = load("mutag", root=raw, prepare=Prepare([degrees()]))
    batch = next(iter(DataLoader(bundle.train, batch_size=5)))
    assert batch.y.shape == (5,)
    assert read_structure(batch, degrees(), "total").shape == (5,)
    assert read_structure(batch, degrees(), "pair_index").max() < batch.num_nodes
    assert bundle.class_counts().sum() == len(bundle.train)
    with pytest.raises(ArgumentError, match="labels on graphs"):
        _ = bundle.graph


def test_regressions_have_no_classes(load: Load, raw: pathlib.Path) -> None:
    with pytest.raises(ArgumentError, match="no classes"):
        load("zinc", root=raw).class_counts()


def test_the_split_seed_is_the_runs_unless_given(load: Load, raw: pathlib.Path) -> None:
    one, two, same, fixed, also = (
        load("mutag", root=raw, seed=seed, split_seed=own).split
        for seed, own in ((1, None), (2, None), (1, None), (1, 7), (2, 7))
    )
    assert torch.equal(one.train, same.train)
    assert not torch.equal(one.train, two.train)
    assert torch.equal(fixed.train, also.train)
    assert (one.seed, fixed.seed) == (1, 7)


def test_the_split_goes_into_json(load: Load, raw: pathlib.Path) -> None:
    split = load("mutag", root=raw, seed=3).split
    stored = json.loads(json.dumps(split.to_dict()))
    assert stored["seed"] == 3
    assert stored["source"] == "random"
    assert stored["test"] == split.test.tolist()


def test_split_modes(load: Load, raw: pathlib.Path) -> None:
    assert load("cora", root=raw, split="random").split.source == "random"
    assert len(load("cora", root=raw, split="random", ratios=(0.5, 0.25, 0.25)).split.train) == 300
    assert load("cora", root=raw, folds=3, fold=1).split.source == "fold 1 of 3"
    with pytest.raises(DataError, match="no public split"):
        load("mutag", root=raw, split="public")
    with pytest.raises(DataError, match="exclude each other"):
        load("cora", root=raw, split="public", folds=3)


def test_an_unknown_name_gets_a_suggestion(registry: Registry) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'mutag'"):
        load_data(DataConfig(dataset=Component(name="mutga")), registry=registry)


class TwoCliques:
    """A third party's data set."""

    def __init__(self, result: Any) -> None:
        self.result = result

    @hookimpl
    def kdlgt_datasets(self) -> list[DatasetSpec]:
        return [
            DatasetSpec(
                name="mine", factory=lambda root, options: self.result, options=ZincOptions, level="graph", summary="x"
            )
        ]


def load_mine(registry: Registry, result: Any, **config: Any) -> DataBundle:
    extended = registry.with_plugin(TwoCliques(result), owner="somebody 1.0")
    return load_data(DataConfig(dataset=Component(name="mine"), **config), registry=extended)


def labelled(label: int) -> Data:
    graph = generate.clique(3)
    graph.y = torch.tensor([label])
    return graph


def test_a_data_set_from_a_plugin_and_graphs_without_labels_are_in_no_part(registry: Registry) -> None:
    graphs = [labelled(number % 3 - 1) for number in range(30)]
    raw = RawData(graphs=graphs, level="graph", task="multiclass", out_features=2)
    bundle = load_mine(registry, raw)
    chosen = torch.cat(list(bundle.split.parts.values())).sort().values
    assert chosen.tolist() == [number for number in range(30) if number % 3]


def test_a_plugin_that_returns_something_else_is_named(registry: Registry) -> None:
    with pytest.raises(PluginError, match=r"'mine' of somebody 1\.0 returned list"):
        load_mine(registry, [labelled(0)])


def test_symmetrise_is_applied_before_the_structure(registry: Registry, degrees: Any) -> None:
    graphs = [Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3, y=torch.tensor([n % 2])) for n in range(20)]
    raw = RawData(graphs=graphs, level="graph", task="multiclass", out_features=2)
    bundle = load_mine(registry, raw, symmetrise=True)
    assert bundle.graphs[0].edge_index.size(1) == 4
    assert graphs[0].edge_index.size(1) == 2
