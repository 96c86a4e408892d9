"""The health report as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from kdlgt.attention import AttentionHealth
from kdlgt.attention.health import COLLAPSED_SIZE
from kdlgt.model import ModelHealth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_health(health: ModelHealth) -> Figure:
    """Three panels over layers and heads: effective features, total variation, and log c; collapsed heads in red."""
    from matplotlib.figure import Figure

    layers = [(number, layer) for number, layer in enumerate(health.layers) if layer is not None]
    heads = [(number, layer, head) for number, layer in layers for head in range(layer.effective_size.size(0))]
    figure = Figure(figsize=(max(9.0, 3 + 0.9 * len(heads)), 3.8), layout="constrained")
    size, variation, error = figure.subplots(1, 3)
    labels = [f"{number}.{head}" for number, _, head in heads]
    colours = ["tab:red" if layer.collapsed[head] else "tab:blue" for _, layer, head in heads]
    _boxes(size, [layer.effective_size[head] for _, layer, head in heads], labels, colours)
    _boxes(variation, [layer.total_variation[head] for _, layer, head in heads], labels, colours)
    _boxes(error, [_log_c(layer, head) for _, layer, head in heads], labels, colours)
    size.axhline(COLLAPSED_SIZE, color="grey", linestyle=":")
    size.set(title="effective features per row", yscale="log")
    variation.set(title="total variation to the exact row", ylim=(0, None))
    error.axhline(0, color="grey", linestyle=":")
    error.set(title="log c of entries (Lemma 1: below 0)")
    return figure


def _log_c(layer: AttentionHealth, head: int) -> torch.Tensor:
    return torch.empty(0) if layer.log_c is None else layer.log_c[head]


def _boxes(axes: Axes, values: list[torch.Tensor], labels: list[str], colours: list[str]) -> None:
    positions = np.arange(len(values))
    for position, value, colour in zip(positions, values, colours, strict=True):
        if value.numel():
            style = {"color": colour}
            axes.boxplot(
                [value.numpy()],
                positions=[position],
                widths=0.6,
                whis=(5, 95),
                showfliers=False,
                boxprops=style,
                whiskerprops=style,
                capprops=style,
                medianprops=style,
            )
    axes.set_xticks(positions, labels, rotation=90 if len(labels) > 12 else 0)
    axes.set_xlabel("layer.head")
    axes.grid(axis="y", alpha=0.3)
