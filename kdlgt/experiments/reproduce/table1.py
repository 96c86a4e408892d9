"""Table 1: statistics of the ten data sets, counted from the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from torch_geometric.data import Data
from torch_geometric.utils import homophily

from kdlgt.data.bundle import Columns, RawData
from kdlgt.errors import KdlgtError
from kdlgt.experiments.reproduce.charts import finish, panels
from kdlgt.experiments.reproduce.claims import Claim, judge
from kdlgt.experiments.reproduce.datasets import DATA_SETS, DataSet
from kdlgt.experiments.reproduce.outcome import Entry, Outcome, Picture, Request, Table
from kdlgt.registry import Registry, load_plugins

_NOTE = (
    "LastFM-Asia's node features are not in the CSV files that we have; it is used with structural features only, and "
    "results on it cannot be compared with the paper's."
)

HIGH = 0.5
"""Edge homogeneity from which most edges join equal labels."""


@attrs.frozen(eq=False, kw_only=True)
class Statistics:
    """What was counted of one data set.

    Attributes:
        entry: the row of the table.
        sizes: nodes of each graph.
        homogeneity: share of edges that join equal labels, at node level.
    """

    entry: dict[str, Entry]
    sizes: list[int]
    homogeneity: float | None


def run(request: Request, data_sets: Sequence[DataSet] = DATA_SETS, registry: Registry | None = None) -> Outcome:
    """Count the data sets; one that is not available says so in its row."""
    registry = load_plugins() if registry is None else registry
    found: dict[str, Statistics | str] = {}
    for entry in data_sets:
        found[entry.title] = _try(entry, request, registry)
        request.say(f"table1: {entry.title}")
    rows = [_row(title, statistics) for title, statistics in found.items()]
    counted = {title: value for title, value in found.items() if isinstance(value, Statistics)}
    return Outcome(
        name="table1",
        title="Table 1: the ten data sets",
        summary=(
            "Statistics counted from the data themselves. An edge counts once, whichever way it is stored. Edge "
            "homogeneity is the share of edges that join nodes of the same class."
        ),
        settings={"data sets": len(data_sets)},
        tables=(Table.of("table1", "Statistics of the data sets", rows),),
        pictures=(_picture(counted),) if counted else (),
        claims=(_homogeneity({title: value.homogeneity for title, value in counted.items()}),),
        notes=(_NOTE,),
    )


def _try(entry: DataSet, request: Request, registry: Registry) -> Statistics | str:
    try:
        raw = registry.dataset(entry.name, root=request.data_root)
    except KdlgtError as error:
        return f"not available: {error}"
    return count(raw)


def count(raw: RawData) -> Statistics:
    """Count one data set."""
    sizes = [int(graph.num_nodes or 0) for graph in raw.graphs]
    edges = [_edges(graph) for graph in raw.graphs]
    share = _edge_homogeneity(raw)
    entry: dict[str, Entry] = {
        "graphs": len(sizes),
        "mean nodes": round(float(np.mean(sizes)), 2),
        "mean edges": round(float(np.mean(edges)), 2),
        "node features": _width(raw.in_features),
        "edge features": _width(raw.edge_features),
        "level": raw.level,
        "task": raw.task,
        "outputs": raw.out_features,
        "metric": raw.metric,
        "split": "random 70/15/15" if raw.split is None else "public",
        "edge homogeneity": None if share is None else round(share, 3),
    }
    return Statistics(entry=entry, sizes=sizes, homogeneity=share)


def _edges(graph: Data) -> int:
    """Undirected edges, self-loops and repetitions not counted."""
    ends = np.sort(graph.edge_index.numpy(), axis=0)
    proper = ends[:, ends[0] != ends[1]]
    return int(np.unique(proper[0] * int(graph.num_nodes or 0) + proper[1]).size)


def _width(columns: Columns) -> str:
    if columns is None:
        return "none"
    if isinstance(columns, int):
        return str(columns)
    return f"{len(columns)} categorical ({', '.join(map(str, columns))} values)"


def _edge_homogeneity(raw: RawData) -> float | None:
    if raw.level != "node" or raw.task != "multiclass":
        return None
    graph = raw.graphs[0]
    return float(homophily(graph.edge_index, graph.y, method="edge"))


def _row(title: str, statistics: Statistics | str) -> dict[str, Entry]:
    if isinstance(statistics, str):
        return {"data set": title, "remark": statistics}
    return {"data set": title, **statistics.entry}


def _homogeneity(share: dict[str, float | None]) -> Claim:
    known = {title: value for title, value in share.items() if value is not None}
    wanted = {"Cora", "Citeseer", "PubMed", "LastFM-Asia"}
    measured = ", ".join(f"{title} {value:.2f}" for title, value in known.items()) or "no node-level data set"
    if not wanted <= known.keys():
        return judge("table1.homogeneity", None, f"needs all four of them; {measured}")
    high = all(known[title] >= HIGH for title in wanted - {"LastFM-Asia"})
    return judge(
        "table1.homogeneity", high and known["LastFM-Asia"] < HIGH, f"share of edges within a class: {measured}"
    )


def _picture(counted: dict[str, Statistics]) -> Picture:
    figure, axes = panels(2)
    graphs = {title: value.sizes for title, value in counted.items() if value.homogeneity is None}
    share = {title: value.homogeneity for title, value in counted.items() if value.homogeneity is not None}
    left: Any
    left, right = axes[0]
    if graphs:
        left.boxplot(list(graphs.values()), orientation="horizontal", tick_labels=list(graphs), sym=".")
        left.set_xscale("log")
    finish(left, "nodes per graph", "", "graph-level data sets")
    bars = right.barh(list(share), list(share.values()), color="#4c78a8")
    right.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    right.set_xlim(0, 1.1)
    finish(right, "share of edges within a class", "", "node-level data sets")
    return Picture(name="table1", title="Sizes of the graphs, and edge homogeneity", figure=figure)
