"""SAPD against SPD: the gap, the number of anchors, what a cap covers, and what pooling keeps (paper section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.attention import exact_attention
from kdlgt.experiments.reproduce.claims import Claim, judge
from kdlgt.experiments.reproduce.outcome import Entry, Outcome, Request, Table, number
from kdlgt.experiments.reproduce.sapd_picture import NO_RPE, draw
from kdlgt.graph import Graph, Prepare, generate
from kdlgt.graph.anchors import AnchorDistances, anchor_distances, choose_anchors
from kdlgt.graph.search import breadth_first_distances
from kdlgt.registry import Registry, load_plugins


@attrs.frozen(kw_only=True)
class Settings:
    """What is measured.

    Attributes:
        nodes: nodes of the graphs on which all pairs are compared.
        hops: values of k.
        sizes: numbers of nodes on which anchors are counted.
        caps: values of ``max_anchors``.
        decays: values of -c at which attention is compared.
        pooling_hops: k of that comparison.
        pooling_nodes: nodes of its graphs.
    """

    nodes: int = 484
    hops: tuple[int, ...] = (1, 2, 3)
    sizes: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    caps: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    decays: tuple[float, ...] = (0.3, 1.0)
    pooling_hops: int = 2
    pooling_nodes: int = 256


SETTINGS = {
    "small": Settings(),
    "medium": Settings(),
    "full": Settings(
        nodes=1024, pooling_nodes=576, sizes=tuple(2**p for p in range(8, 17)), caps=(1, 2, 4, 8, 16, 32, 64, 128, 256)
    ),
}


def graph_families(seed: int) -> dict[str, Callable[[int], Data]]:
    """Makers of the graphs by number of nodes."""
    return {
        "6-regular": lambda nodes: generate.random_regular(nodes, 6, seed),
        "grid": lambda nodes: generate.grid(math.isqrt(nodes), math.isqrt(nodes)),
        "path": generate.path,
        "Barabasi-Albert": lambda nodes: generate.barabasi_albert(nodes, 3, seed),
    }


def run(request: Request, settings: Settings | None = None, registry: Registry | None = None) -> Outcome:
    """Measure gap, anchors, coverage and total variation."""
    chosen = SETTINGS[request.budget] if settings is None else settings
    plugins = load_plugins() if registry is None else registry
    families = graph_families(request.seed)
    data = {name: make(chosen.nodes) for name, make in families.items()}
    gaps = gap_records(data, chosen)
    request.say("sapd: gaps")
    counts = count_records(families, chosen)
    request.say("sapd: anchors against N")
    covers = cover_records(data, chosen)
    variation = variation_records(
        {name: make(chosen.pooling_nodes) for name, make in families.items()}, chosen, plugins
    )
    request.say("sapd: total variation")
    return Outcome(
        name="sapd",
        title="SAPD against SPD",
        summary=(
            "Gap: min over anchors of d(i, a) + d(a, j), minus d(i, j), over all pairs. Anchors: the greedy "
            "distance-k dominating set. Coverage: share of nodes within k of an anchor, and the covering radius R, "
            "under a cap. Total variation: attention with the bias c SAPD, pooled in different ways, against attention "
            "with the bias c SPD; no content, mean over rows."
        ),
        settings=attrs.asdict(chosen),
        tables=(
            Table.of("sapd_gap", "min SAPD - SPD over all pairs", gaps),
            Table.of("sapd_anchors", "Anchors against N, no cap", counts),
            Table.of("sapd_coverage", "Coverage against the cap", covers),
            Table.of("sapd_total_variation", "Total variation from attention with the SPD bias", variation),
        ),
        pictures=(draw(gaps, counts, covers, variation),),
        claims=(*_gap_claims(gaps), _linear_claim(counts), _pooling_claim(variation)),
        notes=("Mean pooling (one softmax per anchor, averaged) is our reading of the paper's 'pool'.",),
    )


def gap_records(data: dict[str, Data], settings: Settings) -> list[dict[str, Entry]]:
    """The gap on every graph at every k, without a cap and with the smallest caps."""
    records: list[dict[str, Entry]] = []
    for name, graph_data in data.items():
        graph = Graph.from_data(graph_data)
        distance = all_distances(graph)
        records += [
            {"graph": name, "k": k, "cap": cap, **_gap(anchor_distances(graph, k, cap), distance, k)}
            for k in settings.hops
            for cap in (None, *settings.caps[2:4])
        ]
    return records


def all_distances(graph: Graph) -> NDArray[np.int32]:
    """SPD between all nodes [N, N], -1 where there is no path."""
    return breadth_first_distances(graph.adjacency, [np.array([node]) for node in range(graph.num_nodes)])


def _gap(anchors: AnchorDistances, distance: NDArray[np.int32], k: int) -> dict[str, Entry]:
    """Largest and mean gap over all pairs of a connected graph."""
    shortest = np.full(distance.shape, np.iinfo(np.int32).max, dtype=np.int32)
    for column in anchors.distance.T:
        np.minimum(shortest, column[:, None] + column[None, :], out=shortest)
    gap = shortest - distance
    report = anchors.report
    return {
        "anchors": report.anchors,
        "radius R": report.radius,
        "covered": round(report.covered, 4),
        "smallest gap": int(gap.min()),
        "mean gap": round(float(gap.mean()), 3),
        "largest gap": int(gap.max()),
        "2k": 2 * k,
        "2R": 2 * report.radius,
    }


def count_records(families: dict[str, Callable[[int], Data]], settings: Settings) -> list[dict[str, Entry]]:
    """Number of anchors without a cap."""
    records: list[dict[str, Entry]] = []
    for name, make in families.items():
        for size in settings.sizes:
            graph = Graph.from_data(make(size))
            for k in settings.hops:
                anchors = choose_anchors(graph, k).nodes.size
                share = round(anchors / graph.num_nodes, 4)
                records.append({"graph": name, "N": graph.num_nodes, "k": k, "anchors": anchors, "share of N": share})
    return records


def cover_records(data: dict[str, Data], settings: Settings) -> list[dict[str, Entry]]:
    """Coverage and radius under each cap that the graph reaches."""
    records: list[dict[str, Entry]] = []
    for name, graph_data in data.items():
        graph = Graph.from_data(graph_data)
        for k in settings.hops:
            for cap in (cap for cap in settings.caps if cap <= graph.num_nodes):
                report = anchor_distances(graph, k, cap).report
                covered = round(report.covered, 4)
                records.append({"graph": name, "k": k, "cap": cap, "covered": covered, "radius R": report.radius})
    return records


def variation_records(data: dict[str, Data], settings: Settings, registry: Registry) -> list[dict[str, Entry]]:
    """Total variation of each pooling from attention with the true bias."""
    records: list[dict[str, Entry]] = []
    for name, graph_data in data.items():
        distance = torch.from_numpy(all_distances(Graph.from_data(graph_data))).double()
        for decay in settings.decays:
            true = torch.softmax(-decay * distance, dim=1)
            uniform = torch.full_like(true, 1 / true.size(1))
            row: dict[str, Entry] = {"graph": name, "c": -decay, NO_RPE: total_variation(uniform, true)}
            for pooling in ("mean", "softmin"):
                rows = attention_rows(graph_data, registry, pooling, settings.pooling_hops, decay)
                row[pooling] = total_variation(rows, true)
            records.append(row)
    return records


def attention_rows(data: Data, registry: Registry, pooling: str, k: int, decay: float) -> Tensor:
    """Attention matrix [N, N] of the encoding alone: equal queries and keys, the identity as values."""
    nodes = int(data.num_nodes or 0)
    encoding = registry.rpe("sapd", heads=1, k=k, max_anchors=nodes, pooling=pooling, initial_decay=decay).double()
    with torch.no_grad():
        bias = encoding(Prepare(encoding.structures)(data))
        nothing = torch.zeros(nodes, 1, 1, dtype=torch.float64)
        return exact_attention(nothing, nothing, torch.eye(nodes, dtype=torch.float64)[:, None], bias)[:, 0]


def total_variation(rows: Tensor, true: Tensor) -> float:
    """Half the l1 distance, mean over rows, to four digits."""
    return round(float((rows - true).abs().sum(1).mean() / 2), 4)


def _gap_claims(gaps: list[dict[str, Entry]]) -> tuple[Claim, Claim]:
    free = [row for row in gaps if row["cap"] is None]
    within_k = [row for row in free if number(row, "largest gap") <= number(row, "k")]
    worst = max(free, key=lambda row: number(row, "largest gap") / number(row, "k"))
    inside = [row for row in gaps if number(row, "smallest gap") >= 0 and number(row, "largest gap") <= _limit(row)]
    reached = sum(number(row, "largest gap") == number(row, "2k") for row in free)
    return (
        judge(
            "sapd.error",
            len(within_k) == len(free),
            f"largest gap {worst['largest gap']} at k = {worst['k']} on {worst['graph']}; within k in {len(within_k)} "
            f"of {len(free)} cases without a cap",
        ),
        judge(
            "sapd.double",
            len(inside) == len(gaps),
            f"within in {len(inside)} of {len(gaps)} cases, 2k attained in {reached} of {len(free)} without a cap",
        ),
    )


def _limit(row: dict[str, Entry]) -> float:
    return number(row, "2k") if row["cap"] is None else number(row, "2R")


def _linear_claim(counts: list[dict[str, Entry]]) -> Claim:
    """Anchors at fixed k stay a constant share of N on graphs of bounded degree: N K is then quadratic."""
    regular = [row for row in counts if row["graph"] == "6-regular"]
    largest = max(number(row, "N") for row in regular)
    growth = {
        k: _growth([row for row in regular if row["k"] == k]) for k in sorted({number(row, "k") for row in regular})
    }
    shares = [f"{100 * number(row, 'share of N'):.1f} % at k = {row['k']}" for row in regular if row["N"] == largest]
    listed = ", ".join(f"N^{exponent:.2f} at k = {k:g}" for k, exponent in growth.items())
    return judge(
        "sapd.linear",
        all(exponent < 0.5 for exponent in growth.values()),
        f"6-regular graphs: anchors grow as {listed}; {', '.join(shares)} of N = {largest:g}. Linear only with a cap",
    )


def _growth(rows: list[dict[str, Entry]]) -> float:
    """Exponent of the number of anchors in N, least squares in logs."""
    sizes, anchors = (np.log([number(row, column) for row in rows]) for column in ("N", "anchors"))
    return float(np.polyfit(sizes, anchors, 1)[0])


def _pooling_claim(variation: list[dict[str, Entry]]) -> Claim:
    gains = [number(row, NO_RPE) - number(row, "mean") for row in variation]
    worst = max(variation, key=lambda row: number(row, NO_RPE) - number(row, "softmin"))
    return judge(
        "sapd.pooling",
        max(gains) > 0.05,
        f"mean pooling is nearer to SPD attention than no RPE by {max(gains):.3f} at most; e.g. {worst['graph']}, "
        f"c = {worst['c']}: no RPE {worst[NO_RPE]}, mean {worst['mean']}, softmin {worst['softmin']}",
    )
