"""Figure 3: the distribution of c_max on NCI1 in a trained three-layer LSAT, and Lemma 1's factor at it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from kdlgt.experiments.reproduce.charts import finish, panels
from kdlgt.experiments.reproduce.claims import Claim, judge, lemma_factor
from kdlgt.experiments.reproduce.datasets import DataSet, Scale, data_set
from kdlgt.experiments.reproduce.outcome import Entry, Outcome, Picture, Request, Table
from kdlgt.experiments.reproduce.training import run_config, run_tree, train_tree
from kdlgt.model import GraphTransformer, model_health
from kdlgt.registry import Registry, load_plugins
from kdlgt.train import RunFolder, Session
from kdlgt.train.checkpoint import load_checkpoint, load_weights

LAYERS = 3
NEAR = 0.3
"""What counts as near to 0: the maximum that the paper reports."""

_LARGEST_LOG = 300.0


@attrs.frozen(kw_only=True)
class Settings:
    """What is trained and measured.

    Attributes:
        graphs: sampled graphs.
        data: the data set.
        normalise: also train LSAT with normalised queries and keys.
    """

    graphs: int = 1000
    data: DataSet = attrs.field(factory=lambda: data_set("nci1"))
    normalise: bool = True


SETTINGS = {
    "small": Settings(data=attrs.evolve(data_set("nci1"), small=Scale(10, 1000))),
    "medium": Settings(data=attrs.evolve(data_set("nci1"), medium=Scale(30))),
    "full": Settings(),
}


@attrs.frozen(eq=False, kw_only=True)
class Errors:
    """Lemma 1's c in one trained model.

    Attributes:
        variant: how the model differs.
        log_c: log of c_max, the largest over heads [graphs, layers].
        variation: mean total variation from the exact rows [graphs, layers].
        features: r.
    """

    variant: str
    log_c: NDArray[np.float64]
    variation: NDArray[np.float64]
    features: int

    def c(self, layer: int) -> NDArray[np.float64]:
        """c_max of the graphs in a layer, infinite where it overflows."""
        logs = self.log_c[:, layer]
        return np.where(logs < _LARGEST_LOG, np.exp(np.minimum(logs, _LARGEST_LOG)), np.inf)


def run(request: Request, settings: Settings | None = None, registry: Registry | None = None) -> Outcome:
    """Train, sample graphs, measure c_max of every layer."""
    chosen = SETTINGS[request.budget] if settings is None else settings
    plugins = load_plugins() if registry is None else registry
    variants = {"LSAT": False, **({"LSAT, normalised q and k": True} if chosen.normalise else {})}
    found = [_measure(name, normalise, request, chosen, plugins) for name, normalise in variants.items()]
    graphs = len(found[0].log_c)
    return Outcome(
        name="figure3",
        title="Figure 3: the distribution of c_max on NCI1",
        summary=(
            f"A {LAYERS}-layer LSAT is trained on NCI1, its weights are kept fixed, and on {graphs} sampled graphs "
            "c_max is the largest c_ij over all pairs of nodes and all heads. c_ij is the relative root mean square "
            "error of one entry of the attention matrix before normalisation, structure-aware part included."
        ),
        settings={
            "graphs": graphs,
            "trained on": chosen.data.scale(request.budget).of("graphs"),
            "features r": found[0].features,
        },
        tables=(
            Table.of("figure3", "c_max by layer", [row for errors in found for row in _rows(errors)]),
            Table.of("figure3_graphs", "c_max of each graph", _graph_rows(found)),
        ),
        pictures=(_picture(found),),
        claims=_claims(found[0], _trained(request, chosen)),
        notes=(
            "The paper does not give the number of random features, the width or the training of its model.",
            "c falls as 1/sqrt(r): the table says which r would bring the median c_max below 1.",
            "c_max is the worst pair of a graph; total variation says how far whole rows are from the softmax.",
        ),
    )


def _measure(name: str, normalise: bool, request: Request, settings: Settings, registry: Registry) -> Errors:
    tree = run_tree("lsat", settings.data, request.budget, request.seed)
    tree["model"] |= {"layers": LAYERS, "attention": {"mode": "linear", "normalise": normalise}}
    scale = settings.data.scale(request.budget)
    config, plugins = run_config(tree, scale, registry)
    folder = RunFolder(request.folder / "runs" / ("normalised" if normalise else "plain"))
    train_tree(tree, scale, folder.path, request.data_root, registry)
    request.say(f"figure3: {name} trained")
    session = Session.open(config, request.data_root, plugins)
    load_weights(folder.best, load_checkpoint(folder.best), session.model)
    graphs = _sampled(session.bundle.graphs, settings.graphs, request.seed)
    return measure_errors(name, session.model, graphs)


def _sampled(graphs: Sequence[Data], count: int, seed: int) -> list[Data]:
    order = np.random.default_rng(seed).permutation(len(graphs))[:count]
    return [graphs[number] for number in order]


def measure_errors(name: str, model: GraphTransformer, graphs: Sequence[Data]) -> Errors:
    """c_max and total variation on each graph by itself, over all of its rows."""
    logs, variations = [], []
    for graph in graphs:
        layers = model_health(model, graph, rows=int(graph.num_nodes or 0), warn=False).layers
        reports = [report for report in layers if report is not None and report.log_c_max is not None]
        logs.append([float(report.log_c_max.max()) for report in reports if report.log_c_max is not None])
        variations.append([float(report.total_variation.mean()) for report in reports])
    features = model.attention_blocks[0].features.num_features
    return Errors(variant=name, log_c=np.array(logs), variation=np.array(variations), features=features)


def _rows(errors: Errors) -> list[dict[str, Entry]]:
    return [_layer_row(errors, layer) for layer in range(errors.log_c.shape[1])]


def _layer_row(errors: Errors, layer: int) -> dict[str, Entry]:
    c = errors.c(layer)
    mean, largest, median = float(c.mean()), float(c.max()), float(np.median(c))
    return {
        "model": errors.variant,
        "layer": layer + 1,
        "mean c_max": _short(mean),
        "median c_max": _short(median),
        "largest c_max": _short(largest),
        "share with c_max < 1": round(float((c < 1).mean()), 4),
        "factor at the mean": _short(lemma_factor(mean)),
        "factor at the largest": _short(lemma_factor(largest)),
        "r for a median of 1": _short(errors.features * median**2),
        "mean total variation": round(float(errors.variation[:, layer].mean()), 4),
    }


def _short(value: float) -> Entry:
    """Four digits; text where there is no number."""
    return float(f"{value:.4g}") if math.isfinite(value) else "none (c >= 1)"


def _graph_rows(found: Sequence[Errors]) -> list[dict[str, Entry]]:
    rows: list[dict[str, Entry]] = []
    for errors in found:
        for graph, logs in enumerate(errors.log_c / math.log(10)):
            decades = {f"log10 c_max, layer {layer + 1}": round(float(value), 4) for layer, value in enumerate(logs)}
            rows.append({"model": errors.variant, "graph": graph, **decades})
    return rows


def _trained(request: Request, settings: Settings) -> str:
    size = "" if request.budget == "full" else "a small model, "
    return f"{size}{settings.data.scale(request.budget).epochs} epochs"


def _claims(errors: Errors, trained: str) -> tuple[Claim, ...]:
    bottom = errors.c(0)
    layers = range(errors.log_c.shape[1])
    near = [float((errors.c(layer) <= NEAR).mean()) for layer in layers]
    below = [float((errors.c(layer) < 1).mean()) for layer in layers]
    mean, largest = float(bottom.mean()), float(bottom.max())
    given = f"r = {errors.features}, {trained}"
    factors = f"factors {_short(lemma_factor(mean))} and {_short(lemma_factor(largest))}"
    return (
        judge(
            "figure3.near-zero",
            min(near) > 0.5,
            f"share of graphs with c_max <= {NEAR} by layer: {_shares(near)}; {given}",
        ),
        judge(
            "figure3.below-one", min(below) == 1, f"share of graphs with c_max < 1 by layer: {_shares(below)}; {given}"
        ),
        judge(
            "figure3.bottom-layer",
            0.05 <= mean <= 0.15 and 0.2 <= largest <= 0.4,
            f"mean {mean:.3g}, largest {largest:.3g}; {factors}; {given}",
        ),
    )


def _shares(shares: Sequence[float]) -> str:
    return ", ".join(f"{100 * share:.1f} %" for share in shares)


def _picture(found: Sequence[Errors]) -> Picture:
    layers = found[0].log_c.shape[1]
    figure, axes = panels(layers, len(found))
    for row, errors in zip(axes, found, strict=True):
        decades = errors.log_c / math.log(10)
        edges = np.histogram_bin_edges(decades, bins=40)
        for layer, panel in enumerate(row):
            weights = np.full(len(decades), 1 / len(decades))
            panel.hist(decades[:, layer], bins=edges, weights=weights, color="#4c78a8")
            panel.axvline(0, color="black", lw=1, ls=":")
            below = (errors.log_c[:, layer] < 0).mean()
            title = f"{errors.variant}, layer {layer + 1}: {100 * below:.0f} % below 1"
            finish(panel, "log10 c_max (Lemma 1 needs < 0)", "share of graphs", title)
    return Picture(name="figure3", title="Distribution of c_max over graphs, by layer", figure=figure)
