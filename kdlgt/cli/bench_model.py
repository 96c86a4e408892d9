"""``kdlgt bench model``."""

from __future__ import annotations

import pathlib
from typing import Annotated, Literal

from cyclopts import Parameter

from kdlgt.cli.bench_options import Grid

DEFAULT = Grid()


def model(
    *,
    methods: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    layers: int = 1,
    hidden: int = 64,
    heads: int = 4,
    features: int = 64,
    rpe: str = "sat",
    recompute: Annotated[bool, Parameter(negative=())] = False,
    device: Literal["cpu", "cuda"] = "cpu",
    seed: int = 0,
    grid: Annotated[Grid, Parameter(name="*")] = DEFAULT,
    json_: Annotated[pathlib.Path | None, Parameter(name="--json")] = None,
    png: pathlib.Path | None = None,
) -> None:
    """Measure a training step and an evaluation of a whole model on random 6-regular graphs, as the paper's Figure 2.

    linear, fused and dense are one model with its attention computed in three ways: the ratio of dense to linear is the
    paper's acceleration ratio. gps is PyG's GPSConv with Performer attention and a GIN branch.

    Parameters
    ----------
    methods
        Which of linear, fused, dense, gps; default: all.
    layers
        Number of layers.
    hidden
        Width of the states.
    heads
        Number of heads.
    features
        Number of random features r.
    rpe
        An installed encoding, with its default options, or none; sat makes the model LSAT.
    recompute
        Compute layers again in the backward pass: the memory of one layer for all.
    device
        Where to measure.
    seed
        Seed of graph, features, labels and model.
    json_
        Write all measurements to this file too.
    png
        Draw time, ratio and memory into this file.
    """
    from kdlgt.cli.bench_options import run_grid, show
    from kdlgt.experiments.benchmark_model import ACTIONS, ModelSettings, model_methods

    settings = ModelSettings(
        layers=layers,
        hidden=hidden,
        heads=heads,
        features=features,
        recompute=recompute,
        rpe=None if rpe == "none" else rpe,
        device=device,
        seed=seed,
    )
    depth = f"{layers} layer{'' if layers == 1 else 's'}"
    title = f"model, 6-regular, {depth}, hidden {hidden}, {heads} heads, r = {features}, RPE {rpe}, {device}"
    show(run_grid(title, model_methods(settings, methods), ACTIONS, grid), json_, png)
