"""What ``kdlgt bench error`` measures: every feature map on the logits of a trained model, error beside time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import torch
from torch import Tensor

from kdlgt.algebra import lower
from kdlgt.attention import attention_health, linear_attention
from kdlgt.attention.inputs import gather_inputs
from kdlgt.features import Conditioned, FeatureMap
from kdlgt.model import LayerInputs
from kdlgt.registry import Registry

BASELINE = "favor+ iid"
"""Independent projections, with the scale of the logits split between queries and keys as for all maps."""

DEFAULT_COUNTS = (16, 32, 64, 128, 256, 512)

MakeMap = Callable[[int, int, int, int], FeatureMap | None]
"""From width, heads, number of features and seed to a map; ``None`` where it cannot have so many features."""


@attrs.frozen(kw_only=True)
class ErrorCell:
    """One map with one number of features.

    Attributes:
        method: name of the map, with ``balanced`` when it is centred and balanced.
        features: r.
        total_variation: mean over layers, heads, sampled rows and seeds.
        ratio: over that of the baseline.
        seconds: median time of one layer's linear attention, forward.
        estimates_softmax: whether more features converge to the softmax.
    """

    method: str
    features: int
    total_variation: float
    ratio: float
    seconds: float
    estimates_softmax: bool


@attrs.frozen(kw_only=True)
class ErrorTable:
    """All maps and numbers of features on one model.

    Attributes:
        name: of the model.
        cells: by method, then by number of features.
    """

    name: str
    cells: tuple[ErrorCell, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of features, ascending."""
        return tuple(sorted({cell.features for cell in self.cells}))

    def best(self, features: int) -> ErrorCell:
        """The map that estimates the softmax with the smallest total variation at a number of features."""
        fit = [cell for cell in self.cells if cell.features == features and cell.estimates_softmax]
        return min(fit, key=lambda cell: cell.total_variation)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        best = {str(count): attrs.asdict(self.best(count)) for count in self.counts}
        return {"name": self.name, "cells": [attrs.asdict(cell) for cell in self.cells], "best": best}


def measure_errors(
    name: str,
    layers: Sequence[LayerInputs],
    registry: Registry,
    *,
    counts: Iterable[int] = DEFAULT_COUNTS,
    rows: int = 64,
    seeds: int = 4,
    listener: Callable[[str], None] = lambda line: None,
) -> ErrorTable:
    """Total variation and time of every installed feature map, plain and balanced.

    Maps that follow moments, and all balanced ones, get those of the layer's own queries and keys.

    Args:
        name: of the model.
        layers: what the model's attention layers are given.
        registry: where the maps come from.
        counts: numbers of features r.
        rows: sampled rows per layer.
        seeds: draws of the projections.
        listener: told what is being measured.
    """
    cells: list[ErrorCell] = []
    for count in counts:
        listener(f"{name}: r = {count}")
        found = {
            method: cell
            for method, make in _methods(registry).items()
            if (cell := _cell(method, make, layers, count, rows, seeds)) is not None
        }
        base = found[BASELINE].total_variation
        cells += [attrs.evolve(cell, ratio=cell.total_variation / base) for cell in found.values()]
    order = {method: place for place, method in enumerate(_methods(registry))}
    return ErrorTable(name=name, cells=tuple(sorted(cells, key=lambda cell: (order[cell.method], cell.features))))


def _methods(registry: Registry) -> dict[str, MakeMap]:
    """The baseline, then every installed map, plain and balanced where the softmax does not see the balance."""
    methods: dict[str, MakeMap] = {BASELINE: _maker(registry, "favor+", orthogonal=False)}
    for name, spec in registry.feature_map_specs.items():
        methods[name] = _maker(registry, name)
        if spec.estimates_softmax:
            methods[f"{name} balanced"] = _balanced(methods[name])
    return methods


def _maker(registry: Registry, name: str, **fixed: Any) -> MakeMap:
    def make(dim: int, heads: int, count: int, seed: int) -> FeatureMap | None:
        options = {"num_features": count, "seed": seed, **fixed}
        known = {field.name for field in attrs.fields(registry.feature_map_specs[name].options)}
        features = registry.feature_map(name, dim=dim, heads=heads, **{k: v for k, v in options.items() if k in known})
        return features if features.num_features == count or "num_features" not in known else None

    return make


def _balanced(make: MakeMap) -> MakeMap:
    def balanced(dim: int, heads: int, count: int, seed: int) -> FeatureMap | None:
        features = make(dim, heads, count, seed)
        return None if features is None else Conditioned(getattr(features, "inner", features))

    return balanced


def _cell(
    method: str, make: MakeMap, layers: Sequence[LayerInputs], count: int, rows: int, seeds: int
) -> ErrorCell | None:
    errors, seconds, estimates = [], [], True
    for number, layer in enumerate(layers):
        for seed in range(seeds):
            features = make(_width(layer), layer.q.size(1), count, 1000 * number + seed)
            if features is None:
                return None
            fit_moments(features, layer)
            errors.append(_total_variation(layer, features, rows, seed))
            seconds.append(_seconds(layer, features))
            estimates = features.estimates_softmax
    return ErrorCell(
        method=method,
        features=count,
        total_variation=statistics.mean(errors),
        ratio=1.0,
        seconds=statistics.median(seconds),
        estimates_softmax=estimates,
    )


def _width(layer: LayerInputs) -> int:
    return layer.q.size(2) + (0 if layer.bias is None else lower(layer.bias).factor_width)


@torch.no_grad()
def fit_moments(features: FeatureMap, layer: LayerInputs) -> None:
    """Give a map that follows moments those of the layer's queries and keys, as a training step does."""
    if not isinstance(features, Conditioned):
        return
    inputs = gather_inputs(layer.q, layer.k, layer.v, layer.bias, layer.ptr, layer.scale)
    features.train()
    features.precondition(inputs.query, inputs.key, inputs.key_log_weight)
    features.after_optimizer_step()
    features.eval()


def _total_variation(layer: LayerInputs, features: FeatureMap, rows: int, seed: int) -> float:
    report = attention_health(
        layer.q,
        layer.k,
        layer.bias,
        ptr=layer.ptr,
        features=features,
        scale=layer.scale,
        rows=rows,
        generator=torch.Generator().manual_seed(seed),
        warn=False,
    )
    return float(report.total_variation.mean())


@torch.no_grad()
def _seconds(layer: LayerInputs, features: FeatureMap) -> float:
    def forward() -> Tensor:
        return linear_attention(
            layer.q, layer.k, layer.v, layer.bias, ptr=layer.ptr, features=features, scale=layer.scale
        )

    forward()
    start = time.perf_counter()
    forward()
    return time.perf_counter() - start
