"""The ten data sets of the paper's Table 1, and what each asks of every system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from kdlgt.errors import unknown_name

_CITATION = {"model.dropout": 0.5, "model.input_dropout": 0.5, "train.weight_decay": 5e-4}
_CITATION_SYSTEMS = {"lsat": {"model.rpe.0.gnn": "GCN"}, "sat": {"model.rpe.0.gnn": "GCN"}}


@attrs.frozen(kw_only=True)
class DataSet:
    """One data set of the paper.

    Attributes:
        name: the data set plugin.
        title: its name in the paper.
        level: whether labels belong to nodes or to graphs.
        settings: config keys for all systems, dotted.
        system_settings: config keys for single systems.
        edge_types: number of edge types, where an edge has one: Graphormer then encodes the edges of shortest paths.
        limit: graphs or nodes at the small budget.
        epochs: epochs at the small budget.
        full_epochs: epochs at the full budget.
    """

    name: str
    title: str
    level: Literal["node", "graph"] = "graph"
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    system_settings: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    edge_types: int = 0
    limit: int = 200
    epochs: int = 8
    full_epochs: int = 200


def _citation(name: str, title: str) -> DataSet:
    return DataSet(
        name=name,
        title=title,
        level="node",
        settings=_CITATION,
        system_settings=_CITATION_SYSTEMS,
        limit=500,
        epochs=15,
        full_epochs=500,
    )


DATA_SETS: tuple[DataSet, ...] = (
    DataSet(name="zinc", title="ZINC", settings={"model.readout": "sum"}, edge_types=4),
    DataSet(name="ogbg-molhiv", title="OGBG-MOLHIV", limit=500, epochs=3, full_epochs=50),
    DataSet(name="mutag", title="MUTAG", edge_types=4),
    DataSet(name="cox2_md", title="COX2_MD", edge_types=5),
    DataSet(name="proteins", title="PROTEINS"),
    DataSet(name="nci1", title="NCI1", limit=300),
    _citation("cora", "Cora"),
    _citation("citeseer", "Citeseer"),
    _citation("pubmed", "PubMed"),
    DataSet(name="lastfm-asia", title="LastFM-Asia", level="node", limit=500, epochs=15, full_epochs=500),
)
"""In the paper's order."""


def data_set(name: str) -> DataSet:
    """A data set of the paper by its name.

    Raises:
        UnknownNameError: the paper has no such data set.
    """
    found = {entry.name: entry for entry in DATA_SETS}
    if name not in found:
        raise unknown_name("data set of the paper", name, found)
    return found[name]


def chosen_data_sets(names: Sequence[str]) -> tuple[DataSet, ...]:
    """The data sets of these names; all of them without names.

    Raises:
        UnknownNameError: the paper has no such data set.
    """
    return tuple(map(data_set, names)) if names else DATA_SETS
