"""Figure 2: the acceleration of LSAT over SAT against the number of nodes, and the memory of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import torch

from kdlgt.experiments.benchmark import Benchmark, doubling_sizes, run_benchmark
from kdlgt.experiments.benchmark_model import ACTIONS, ModelSettings, model_methods
from kdlgt.experiments.measure import Limits
from kdlgt.experiments.reproduce.charts import finish, panels
from kdlgt.experiments.reproduce.figure2_claims import judge_all
from kdlgt.experiments.reproduce.outcome import Entry, Outcome, Picture, Request, Table

METHODS = ("linear", "fused", "dense")
SYSTEM = {"linear": "LSAT", "fused": "SAT, fused attention", "dense": "SAT, as published (dense)"}

_GIB = 1 << 30


@attrs.frozen(kw_only=True)
class Settings:
    """The grid.

    Attributes:
        sizes: numbers of nodes N.
        widths: widths d of the states.
        features: number of random features r.
        repeats: timed runs of each cell, after one that is not timed.
        memory: GiB that a method may take beyond its inputs.
        seconds: limit of one run.
    """

    sizes: tuple[int, ...] = doubling_sizes(11, 14)
    widths: tuple[int, ...] = (32, 64, 128, 256)
    features: int = 64
    repeats: int = 5
    memory: float = 24.0
    seconds: float = 300.0


SETTINGS = {
    "small": Settings(sizes=doubling_sizes(11, 13), widths=(64, 256), repeats=1, memory=6.0, seconds=40.0),
    "medium": Settings(widths=(64, 256), repeats=3, memory=18.0, seconds=120.0),
    "full": Settings(),
}


def run(request: Request, settings: Settings | None = None) -> Outcome:
    """Measure every width over the sizes."""
    chosen = SETTINGS[request.budget] if settings is None else settings
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = {width: _measure(width, device, request, chosen) for width in chosen.widths}
    rows = [row for width, benchmark in found.items() for row in rows_of(width, benchmark)]
    return Outcome(
        name="figure2",
        title="Figure 2: acceleration of LSAT over SAT",
        summary=(
            "One layer of LSAT against the same model with exact attention, on random 6-regular graphs, 4 heads, "
            "medians of interleaved runs. Dense: N x N matrices, SAT as published; the paper's ratio is taken to it. "
            "Fused: the same attention through scaled_dot_product_attention, which holds no N x N matrix: the fairer "
            "rival."
        ),
        settings=attrs.asdict(chosen) | {"device": device},
        tables=(Table.of("figure2", "Time, acceleration and memory", rows),),
        pictures=(_picture(rows, chosen),),
        claims=judge_all(rows),
        notes=("Ratios within one run only; absolute times depend on the machine and its load.",),
    )


def _measure(width: int, device: str, request: Request, settings: Settings) -> Benchmark:
    model = ModelSettings(hidden=width, features=settings.features, device=device, seed=request.seed)
    return run_benchmark(
        f"d = {width}",
        model_methods(model, METHODS),
        settings.sizes,
        ACTIONS,
        limits=Limits(memory=int(settings.memory * _GIB), seconds=settings.seconds),
        repeats=settings.repeats,
        listener=lambda line: request.say(f"figure2: d = {width}, {line}"),
    )


def rows_of(width: int, benchmark: Benchmark) -> list[dict[str, Entry]]:
    """One row per size, action and method."""
    return [
        {
            "d": width,
            "N": cell.nodes,
            "action": cell.action,
            "system": SYSTEM[cell.method],
            "outcome": cell.outcome,
            "seconds": _or_none(cell.median),
            "acceleration of LSAT": _or_none(benchmark.ratio(cell.method, cell.nodes, cell.action)),
            "peak memory (GB)": round(cell.peak / 1e9, 4) if cell.outcome == "ok" else None,
        }
        for cell in benchmark.cells
    ]


def _or_none(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _picture(rows: Sequence[dict[str, Entry]], settings: Settings) -> Picture:
    figure, axes = panels(3, len(ACTIONS))
    for line, action in zip(axes, ACTIONS, strict=True):
        own = [row for row in rows if row["action"] == action]
        for panel, method in zip(line, ("dense", "fused"), strict=False):
            for width in settings.widths:
                _line(panel, own, width, method, "acceleration of LSAT", label=f"d = {width}")
            panel.axhline(1, color="black", lw=1, ls=":")
            panel.set_xscale("log", base=2)
            finish(panel, "N", "time of SAT / time of LSAT", f"{action}: against {SYSTEM[method]}")
        for colour, method in enumerate(METHODS):
            _line(line[2], own, settings.widths[0], method, "peak memory (GB)", SYSTEM[method], colour)
        line[2].set_yscale("log")
        line[2].set_xscale("log", base=2)
        finish(line[2], "N", "peak memory (GB)", f"{action}: memory, d = {settings.widths[0]}")
    return Picture(name="figure2", title="Acceleration ratio and memory against N", figure=figure)


def _line(
    panel: Any, rows: Sequence[dict[str, Entry]], width: int, method: str, column: str, label: str, colour: int = -1
) -> None:
    own = [row for row in rows if (row["d"], row["system"]) == (width, SYSTEM[method]) and row[column] is not None]
    style = {} if colour < 0 else {"color": f"C{colour}"}
    panel.plot([row["N"] for row in own], np.array([row[column] for row in own]), "o-", ms=3, label=label, **style)
