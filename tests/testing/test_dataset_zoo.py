"""Broken data sets and absolute encodings: each is caught by exactly its own check."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.data import RawData
from kdlgt.errors import DataError
from kdlgt.graph import Graph, Structure
from kdlgt.registry import AbsoluteSpec, DatasetSpec
from kdlgt.testing import check_absolute, check_dataset
from kdlgt.testing.absolute import CHECKS as ABSOLUTE_CHECKS
from kdlgt.testing.check import CheckResult
from kdlgt.testing.dataset import CHECKS as DATASET_CHECKS


@attrs.frozen(kw_only=True)
class NoOptions:
    pass


def _grow(value: int) -> int:
    return value + 1


@attrs.frozen(kw_only=True)
class DriftingOptions:
    size: int = attrs.field(default=8, converter=_grow)


def failed(results: list[CheckResult]) -> set[str]:
    return {result.check for result in results if result.status == "failed"}


# -- data sets ---------------------------------------------------------------------------------------------------------


def two_graphs(*, first_label: int = 0, x: Tensor | None = None) -> RawData:
    edges = torch.tensor([[0, 1], [1, 0]])
    features = torch.ones(2, 1) if x is None else x
    graphs = [Data(x=features, edge_index=edges, y=torch.tensor([label])) for label in (first_label, 1)]
    return RawData(graphs=graphs, level="graph", task="multiclass", out_features=2, in_features=1)


def read(root: pathlib.Path | None, options: Any) -> RawData:
    return two_graphs()


def no_raw_data(root: pathlib.Path | None, options: Any) -> Any:
    return two_graphs().graphs


def wrong_labels(root: pathlib.Path | None, options: Any) -> RawData:
    return two_graphs(first_label=7)


def shuffled(root: pathlib.Path | None, options: Any) -> RawData:
    return two_graphs(x=torch.from_numpy(np.random.default_rng().random((2, 1))).float())


def draws_globally(root: pathlib.Path | None, options: Any) -> RawData:
    random.random()
    return two_graphs()


def missing(root: pathlib.Path | None, options: Any) -> RawData:
    raise DataError("no such files")


DATASETS: dict[str, tuple[Callable[..., Any], dict[str, Any], set[str]]] = {
    "sound": (read, {}, set()),
    "files that are not here": (missing, {}, set()),
    "wrong level": (read, {"level": "node"}, {"works"}),
    "no RawData": (no_raw_data, {}, {"works"}),
    "labels out of range": (wrong_labels, {}, {"valid"}),
    "not deterministic": (shuffled, {}, {"determinism"}),
    "draws from a global state": (draws_globally, {}, {"random state"}),
    "options that do not come back": (read, {"options": DriftingOptions}, {"config"}),
}


def dataset_spec(factory: Callable[..., Any], claims: dict[str, Any]) -> DatasetSpec:
    declared: dict[str, Any] = {
        "name": "specimen",
        "factory": factory,
        "options": NoOptions,
        "level": "graph",
        "summary": "a specimen",
    }
    return DatasetSpec(**(declared | claims))


@pytest.mark.parametrize("specimen", DATASETS)
def test_each_fault_of_a_data_set_is_caught_by_its_own_check_alone(specimen: str) -> None:
    factory, claims, expected = DATASETS[specimen]
    assert failed(check_dataset(dataset_spec(factory, claims))) == expected


def test_every_check_of_data_sets_has_a_specimen() -> None:
    assert set.union(*(expected for _, _, expected in DATASETS.values())) == set(DATASET_CHECKS)


def test_missing_files_are_a_reason_to_skip() -> None:
    skipped = [result for result in check_dataset(dataset_spec(missing, {})) if result.check != "config"]
    assert {result.status for result in skipped} == {"skipped"}
    assert all("no such files" in result.reason for result in skipped)


# -- absolute encodings ------------------------------------------------------------------------------------------------


@attrs.frozen
class Constant(Structure):
    width: int = 2

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        return {"encoding": torch.ones(graph.num_nodes, self.width)}


@attrs.frozen
class TooWide(Constant):
    def compute(self, graph: Graph) -> dict[str, Tensor]:
        return {"encoding": torch.ones(graph.num_nodes, self.width + 1)}


@attrs.frozen
class NotFinite(Constant):
    def compute(self, graph: Graph) -> dict[str, Tensor]:
        return {"encoding": torch.ones(graph.num_nodes, self.width) / float(graph.degree.sum() or float("nan"))}


@attrs.frozen
class Drawn(Constant):
    def compute(self, graph: Graph) -> dict[str, Tensor]:
        return {"encoding": torch.from_numpy(np.random.default_rng().random((graph.num_nodes, self.width)))}


@attrs.frozen
class DrawnGlobally(Constant):
    def compute(self, graph: Graph) -> dict[str, Tensor]:
        torch.rand(1)
        return super().compute(graph)


@attrs.frozen
class Mutates(Constant):
    def compute(self, graph: Graph) -> dict[str, Tensor]:
        graph.data.edge_index.zero_()
        return super().compute(graph)


@attrs.frozen
class Unpicklable(Constant):
    function: Any = attrs.field(factory=lambda: lambda value: value, eq=False, repr=False)


@attrs.frozen
class Misnamed(Constant):
    """A side field whose width differs from graph to graph, which PyG cannot batch."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        return super().compute(graph) | {"extra": torch.ones(graph.num_nodes, graph.num_nodes)}


ABSOLUTE: dict[str, tuple[Callable[[], Structure], dict[str, Any], set[str]]] = {
    "sound": (Constant, {}, set()),
    "too wide": (TooWide, {}, {"works"}),
    "not finite": (NotFinite, {}, {"finite"}),
    "cannot be batched": (Misnamed, {}, {"batching"}),
    "draws from a global state": (DrawnGlobally, {}, {"random state"}),
    "mutates its input": (Mutates, {}, {"inputs"}),
    "not picklable": (Unpicklable, {}, {"saving"}),
    "options that do not come back": (Constant, {"options": DriftingOptions}, {"config"}),
    "not deterministic": (Drawn, {}, {"determinism"}),
}


@pytest.mark.parametrize("specimen", ABSOLUTE)
def test_each_fault_of_an_absolute_encoding_is_caught_by_its_own_check_alone(specimen: str) -> None:
    make, claims, expected = ABSOLUTE[specimen]
    declared: dict[str, Any] = {
        "name": "specimen",
        "factory": lambda options: make(),
        "options": NoOptions,
        "summary": "a specimen",
    }
    assert failed(check_absolute(AbsoluteSpec(**(declared | claims)))) == expected


def test_every_check_of_absolute_encodings_has_a_specimen() -> None:
    assert set.union(*(expected for _, _, expected in ABSOLUTE.values())) == set(ABSOLUTE_CHECKS)
