"""What ``kdlgt bench model`` measures: whole models on one random 6-regular graph, as in the paper's Figure 2."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data

from kdlgt.build import build_model, prepare
from kdlgt.config import ModelConfig, config_from_dict
from kdlgt.experiments.benchmark import chosen
from kdlgt.experiments.benchmark_attention import DEGREE
from kdlgt.experiments.measure import Actions, Build
from kdlgt.graph.generate import random_regular
from kdlgt.registry import Registry, load_plugins

ACTIONS = ("training step", "evaluation")
CLASSES = 5
COLUMNS = 16


@attrs.frozen(kw_only=True)
class ModelSettings:
    """Sizes of the model that is measured.

    Attributes:
        layers, hidden, heads: as in ``[model]``.
        features: r, the number of random features.
        recompute: compute layers again in the backward pass.
        rpe: name of an installed encoding with its default options, or ``None``; ``sat`` makes it LSAT.
        options: the encoding's options that differ from the default.
        device: ``cpu`` or ``cuda``.
        seed: seed of graph, features, labels and model.
    """

    layers: int = 1
    hidden: int = 64
    heads: int = 4
    features: int = 64
    recompute: bool = False
    rpe: str | None = "sat"
    options: dict[str, Any] = attrs.Factory(dict)
    device: str = "cpu"
    seed: int = 0


def model_methods(settings: ModelSettings, names: tuple[str, ...] = ()) -> dict[str, Callable[[int], Build]]:
    """The methods by name, those asked for or all, each from a number of nodes to its work.

    ``linear``, ``fused`` and ``dense`` are one model with its attention computed in three ways; ``gps`` is PyG's
    ``GPSConv`` with Performer attention and a GIN branch.

    Raises:
        UnknownNameError: a name that is none of these.
    """
    return {name: functools.partial(_delayed, name, settings) for name in chosen("method", names, _METHODS)}


def _delayed(name: str, settings: ModelSettings, nodes: int) -> Build:
    return functools.partial(_METHODS[name], settings, nodes)


def model_config(settings: ModelSettings, attention: dict[str, str], registry: Registry) -> ModelConfig:
    """The measured model as a config."""
    tree = {
        "layers": settings.layers,
        "hidden": settings.hidden,
        "heads": settings.heads,
        "dropout": 0.0,
        "features": {"name": "favor+", "num_features": settings.features},
        "rpe": [] if settings.rpe is None else [{"name": settings.rpe, **settings.options}],
        "attention": attention,
        "recompute": settings.recompute,
    }
    return config_from_dict({"model": tree}, registry).model


def _graph(settings: ModelSettings, nodes: int) -> Data:
    generator = torch.Generator().manual_seed(settings.seed)
    data = random_regular(nodes, DEGREE, settings.seed)
    data.x = torch.randn(nodes, COLUMNS, generator=generator)
    data.y = torch.randint(CLASSES, (nodes,), generator=generator)
    return data


def _transformer(attention: dict[str, str], settings: ModelSettings, nodes: int) -> Actions:
    registry = load_plugins()
    config = model_config(settings, attention, registry)
    data = prepare(config, registry)(_graph(settings, nodes)).to(settings.device)
    model = build_model(config, in_features=COLUMNS, out_features=CLASSES, seed=settings.seed, registry=registry).to(
        settings.device
    )
    return _step_and_evaluation(model, lambda: model(data), data.y)


def _gps(settings: ModelSettings, nodes: int) -> Actions:
    from torch_geometric.nn import GINConv, GPSConv

    hidden, width = settings.hidden, settings.hidden // settings.heads
    data = _graph(settings, nodes).to(settings.device)
    layers = nn.ModuleList(
        GPSConv(
            hidden,
            GINConv(nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden))),
            heads=settings.heads,
            attn_type="performer",
            attn_kwargs={"head_channels": width},
        )
        for _ in range(settings.layers)
    )
    model = nn.ModuleDict({"in": nn.Linear(COLUMNS, hidden), "out": nn.Linear(hidden, CLASSES)})
    model["layers"] = layers
    model.to(settings.device)

    def forward() -> Tensor:
        x = model["in"](data.x)
        for layer in layers:
            x = layer(x, data.edge_index)
        output: Tensor = model["out"](x)
        return output

    return _step_and_evaluation(model, forward, data.y)


def _step_and_evaluation(model: nn.Module, forward: Callable[[], Tensor], labels: Tensor) -> Actions:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def training_step() -> None:
        model.train()
        optimizer.zero_grad()
        functional.cross_entropy(forward(), labels).backward()
        optimizer.step()

    def evaluation() -> None:
        model.eval()
        with torch.no_grad():
            forward()

    return dict(zip(ACTIONS, (training_step, evaluation), strict=True))


_METHODS: dict[str, Callable[[ModelSettings, int], Actions]] = {
    "linear": functools.partial(_transformer, {"mode": "linear"}),
    "fused": functools.partial(_transformer, {"mode": "exact", "exact": "fused"}),
    "dense": functools.partial(_transformer, {"mode": "exact", "exact": "dense"}),
    "gps": _gps,
}
