"""The core's own data sets, on the same road as anybody's: the entry point ``datasets`` of the group ``kdlgt``."""

from __future__ import annotations

import importlib
import pathlib
from typing import Any

import attrs

from kdlgt.data import options
from kdlgt.registry import DatasetSpec, hookimpl

_PLANETOID = "Yang et al., Revisiting Semi-Supervised Learning with Graph Embeddings, ICML 2016"
_TU = "Morris et al., TUDataset, 2020"


@attrs.frozen
class _Reader:
    """A factory whose module (torch, PyG) is imported when the data set is read, not when plugins are listed."""

    module: str
    function: str
    arguments: tuple[str, ...] = ()

    def __call__(self, root: pathlib.Path | None, given: Any) -> Any:
        read = getattr(importlib.import_module(f"kdlgt.data.{self.module}"), self.function)
        return read(*self.arguments, root, given)


@hookimpl
def kdlgt_datasets() -> list[DatasetSpec]:
    """Benchmarks, synthetic tasks, and the ways to your own data."""
    return [*_benchmarks(), *_citation(), *_tu(), *_without_files(), *_own()]


def _citation() -> list[DatasetSpec]:
    texts = {
        "Cora": "2,708 papers, 7 topics, words as features; public split",
        "CiteSeer": "3,327 papers, 6 topics, words as features; public split",
        "PubMed": "19,717 papers, 3 topics, weighted words as features; public split",
    }
    return [
        DatasetSpec(
            name=folder.lower(),
            factory=_Reader("planetoid", "planetoid", (folder,)),
            options=options.PlanetoidOptions,
            level="node",
            summary=text,
            source=_PLANETOID,
        )
        for folder, text in texts.items()
    ]


def _tu() -> list[DatasetSpec]:
    texts = {
        "MUTAG": "188 molecules, mutagenic or not; atom and bond types",
        "COX2_MD": "303 complete molecular graphs, inhibitor or not; atom and bond types, distances as an option",
        "PROTEINS": "1,113 proteins, enzyme or not; kinds of secondary structure",
        "NCI1": "4,110 molecules, active against lung cancer or not; atom types",
    }
    return [
        DatasetSpec(
            name=folder.lower(),
            factory=_Reader("tu", "tu", (folder,)),
            options=options.TUOptions,
            level="graph",
            summary=text,
            source=_TU,
        )
        for folder, text in texts.items()
    ]


def _benchmarks() -> list[DatasetSpec]:
    return [
        DatasetSpec(
            name="zinc",
            factory=_Reader("zinc", "zinc"),
            options=options.ZincOptions,
            level="graph",
            summary="12,000 molecules, constrained solubility (mean absolute error); public split",
            source="Dwivedi et al., Benchmarking Graph Neural Networks, 2020",
        ),
        DatasetSpec(
            name="ogbg-molhiv",
            factory=_Reader("molhiv", "molhiv"),
            options=options.MolhivOptions,
            level="graph",
            summary="41,127 molecules, active against HIV or not (ROC-AUC); scaffold split",
            source="Hu et al., Open Graph Benchmark, NeurIPS 2020",
        ),
        DatasetSpec(
            name="lastfm-asia",
            factory=_Reader("lastfm", "lastfm_asia"),
            options=options.LastFMOptions,
            level="node",
            summary="7,624 users, 18 countries; no features in the CSV files",
            source="Rozemberczki and Sarkar, Characteristic Functions on Graphs, CIKM 2020",
        ),
    ]


def _without_files() -> list[DatasetSpec]:
    return [
        DatasetSpec(
            name="digits",
            factory=_Reader("embedded", "digits"),
            options=options.DigitsOptions,
            level="node",
            summary="1,797 handwritten digits as a nearest-neighbour graph, few labels; needs no files",
            source="Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, 1998 (scikit-learn)",
        ),
        DatasetSpec(
            name="karate",
            factory=_Reader("embedded", "karate"),
            options=options.KarateOptions,
            level="node",
            summary="34 members of a karate club, 4 communities; needs no files",
            source="Zachary, An Information Flow Model for Conflict and Fission in Small Groups, 1977",
        ),
        DatasetSpec(
            name="regular",
            factory=_Reader("synthetic", "regular"),
            options=options.RegularOptions,
            level="node",
            summary="a random regular graph of any size, 5 classes from features around each node",
            source="the graphs of the efficiency experiments of KDLGT, IJCAI 2023",
        ),
        DatasetSpec(
            name="distance",
            factory=_Reader("synthetic", "distance"),
            options=options.DistanceOptions,
            level="graph",
            summary="cycles with two marked nodes; the class is the range of their distance, so an RPE must matter",
        ),
    ]


def _own() -> list[DatasetSpec]:
    return [
        DatasetSpec(
            name="files",
            factory=_Reader("own", "files"),
            options=options.FilesOptions,
            level="graph",
            summary="your own data: a saved list of PyG graphs, or tables (CSV, Parquet) of edges, features and labels",
        ),
        DatasetSpec(
            name="pyg",
            factory=_Reader("external", "pyg"),
            options=options.PygOptions,
            level="graph",
            summary="any PyG data set by the dotted path of its class",
        ),
    ]
