"""The ten data sets of the paper's Table 1, and what each asks of every system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from kdlgt.errors import unknown_name
from kdlgt.experiments.reproduce.outcome import Budget

_CITATION = {"model.dropout": 0.5, "model.input_dropout": 0.5, "train.weight_decay": 5e-4}
_CITATION_SYSTEMS = {"lsat": {"model.rpe.0.gnn": "GCN"}, "sat": {"model.rpe.0.gnn": "GCN"}}


@attrs.frozen
class Scale:
    """How much of a data set a budget takes, and for how long.

    Attributes:
        epochs: epochs of training.
        limit: at most so many graphs or nodes; ``None`` for all.
    """

    epochs: int
    limit: int | None = None

    def of(self, unit: str) -> str:
        """In words."""
        part = "all" if self.limit is None else f"at most {self.limit} {unit}"
        return f"{part}, {self.epochs} epochs"


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
        small, medium, full: how much of it each budget takes.
    """

    name: str
    title: str
    level: Literal["node", "graph"] = "graph"
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    system_settings: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    edge_types: int = 0
    small: Scale = Scale(epochs=8, limit=200)
    medium: Scale = Scale(epochs=12, limit=500)
    full: Scale = Scale(epochs=200)

    def scale(self, budget: Budget) -> Scale:
        """How much of it a budget takes."""
        return {"small": self.small, "medium": self.medium, "full": self.full}[budget]


def _graph_of_nodes(name: str, title: str, *, citations: bool) -> DataSet:
    """A data set of one graph; bags of words of citation graphs need dropout and decay."""
    return DataSet(
        name=name,
        title=title,
        level="node",
        settings=_CITATION if citations else {},
        system_settings=_CITATION_SYSTEMS if citations else {},
        small=Scale(15, 500),
        medium=Scale(40, 3400),
        full=Scale(500),
    )


DATA_SETS: tuple[DataSet, ...] = (
    DataSet(name="zinc", title="ZINC", settings={"model.readout": "sum"}, edge_types=4),
    DataSet(name="ogbg-molhiv", title="OGBG-MOLHIV", small=Scale(3, 500), medium=Scale(8, 500), full=Scale(50)),
    DataSet(name="mutag", title="MUTAG", edge_types=4),
    DataSet(name="cox2_md", title="COX2_MD", edge_types=5),
    DataSet(name="proteins", title="PROTEINS"),
    DataSet(name="nci1", title="NCI1", small=Scale(8, 300)),
    _graph_of_nodes("cora", "Cora", citations=True),
    _graph_of_nodes("citeseer", "Citeseer", citations=True),
    _graph_of_nodes("pubmed", "PubMed", citations=True),
    _graph_of_nodes("lastfm-asia", "LastFM-Asia", citations=False),
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
