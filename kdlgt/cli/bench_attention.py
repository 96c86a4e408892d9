"""``kdlgt bench attention``."""

from __future__ import annotations

import pathlib
from typing import Annotated, Literal

from cyclopts import Parameter

from kdlgt.cli.bench_options import Grid

DEFAULT = Grid()


def attention(
    *,
    methods: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    hidden: int = 64,
    heads: int = 4,
    features: int = 64,
    rpe: str | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
    seed: int = 0,
    grid: Annotated[Grid, Parameter(name="*")] = DEFAULT,
    json_: Annotated[pathlib.Path | None, Parameter(name="--json")] = None,
    png: pathlib.Path | None = None,
) -> None:
    """Measure attention layers on random 6-regular graphs, forward and training step.

    linear, fused and dense start from queries, keys and values; floor is the matrix products of linear alone; block is
    linear attention with its projections, to be compared with PyG's layers: performer, sgformer and gps.

    Parameters
    ----------
    methods
        Which of linear, floor, fused, dense, block, performer, sgformer, gps; default: all.
    hidden
        Width of the states; a head has hidden / heads.
    heads
        Number of heads.
    features
        Number of random features r of linear and block.
    rpe
        An installed encoding, with its default options, as a bias of linear, fused, dense and block.
    device
        Where to measure.
    seed
        Seed of graph, inputs and projections.
    json_
        Write all measurements to this file too.
    png
        Draw time, ratio and memory into this file.
    """
    from kdlgt.cli.bench_options import run_grid, show
    from kdlgt.experiments.benchmark_attention import ACTIONS, AttentionSettings, attention_methods

    settings = AttentionSettings(hidden=hidden, heads=heads, features=features, rpe=rpe, device=device, seed=seed)
    title = f"attention, 6-regular, hidden {hidden}, {heads} heads, r = {features}, RPE {rpe or 'none'}, {device}"
    show(run_grid(title, attention_methods(settings, methods), ACTIONS, grid), json_, png)
