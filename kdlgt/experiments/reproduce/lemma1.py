"""Lemma 1: the bound against measured P'/P over the number of features and the scale of the logits."""

from __future__ import annotations

import math

import attrs
import numpy as np
import torch
from torch import Tensor

from kdlgt.attention import exact_attention, linear_attention
from kdlgt.attention.health import attention_health
from kdlgt.experiments.reproduce.charts import finish, panels
from kdlgt.experiments.reproduce.claims import Claim, judge, lemma_factor
from kdlgt.experiments.reproduce.outcome import Entry, Outcome, Picture, Request, Table
from kdlgt.registry import Registry, load_plugins

_CHUNK = 64
_NOTE = (
    "The bound is on expectations, to first order: the expectation of a quotient is not the quotient of expectations, "
    "hence the slack of three standard errors. Single draws leave it often."
)
_LARGEST_LOG = 300.0


@attrs.frozen(kw_only=True)
class Settings:
    """What is measured.

    Attributes:
        nodes: number of queries and keys N.
        dim: their width d.
        features: numbers of random features r.
        scales: standard deviations of the entries of q and k.
        draws: projections drawn for each pair (r, scale).
    """

    nodes: int = 24
    dim: int = 16
    features: tuple[int, ...] = (16, 64, 256, 1024)
    scales: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0)
    draws: int = 256


SETTINGS = {"small": Settings(), "medium": Settings(), "full": Settings(nodes=64, draws=2048, dim=16)}


@attrs.frozen(kw_only=True)
class Point:
    """One pair (r, scale).

    Attributes:
        features: r.
        scale: standard deviation of the entries of q and k.
        log_c: log of ``c = max_ij c_ij``.
        lowest, highest: extremes over (i, j) of the mean of P'/P over draws.
        noise: largest standard error of these means.
        single_low, single_high: 1 % and 99 % quantiles of P'/P in one draw.
        inside: whether every mean lies within the bound, give or take three standard errors; ``None`` where c >= 1.
    """

    features: int
    scale: float
    log_c: float
    lowest: float
    highest: float
    noise: float
    single_low: float
    single_high: float
    inside: bool | None

    @property
    def c(self) -> float:
        """c, infinite where it overflows."""
        return math.exp(self.log_c) if self.log_c < _LARGEST_LOG else math.inf


def run(request: Request, settings: Settings | None = None, registry: Registry | None = None) -> Outcome:
    """Measure P'/P at every pair (r, scale)."""
    chosen = SETTINGS[request.budget] if settings is None else settings
    plugins = load_plugins() if registry is None else registry
    points = []
    for features in chosen.features:
        points += [measure(chosen, features, scale, request.seed, plugins) for scale in chosen.scales]
        request.say(f"lemma1: r = {features}")
    return Outcome(
        name="lemma1",
        title="Lemma 1: the bound, and where its assumption fails",
        summary=(
            "Queries and keys with independent Gaussian entries. P is the exact attention matrix, P' that of iid "
            "FAVOR+ (logit scale split over both sides); its mean over draws is compared with the bound entry by "
            "entry. c is the largest c_ij; from c = 1 on the lemma says nothing."
        ),
        settings=attrs.asdict(chosen),
        tables=(Table.of("lemma1", "P'/P against the bound", [_record(point) for point in points]),),
        pictures=(_picture(points),),
        claims=(_bound(points), _assumption(points, chosen)),
        notes=(_NOTE,),
    )


def measure(settings: Settings, features: int, scale: float, seed: int, registry: Registry) -> Point:
    """P'/P at one pair (r, scale)."""
    generator = torch.Generator().manual_seed(seed)
    q, k = (scale * torch.randn(settings.nodes, 1, settings.dim, generator=generator).double() for _ in range(2))
    eye = torch.eye(settings.nodes, dtype=torch.float64)[:, None]
    exact = exact_attention(q, k, eye, implementation="dense")[:, 0]
    ratio = _ratios(q, k, exact, features, settings.draws, seed, registry)
    one = registry.feature_map("favor+", dim=settings.dim, heads=1, num_features=features, orthogonal=False)
    health = attention_health(q, k, features=one, rows=settings.nodes, warn=False)
    assert health.log_c_max is not None
    log_c = float(health.log_c_max)
    mean, error = ratio.mean(0), ratio.std(0) / math.sqrt(settings.draws)
    low, high = np.quantile(ratio.numpy(), [0.01, 0.99])
    return Point(
        features=features,
        scale=scale,
        log_c=log_c,
        lowest=float(mean.min()),
        highest=float(mean.max()),
        noise=float(error.max()),
        single_low=float(low),
        single_high=float(high),
        inside=_inside(mean, error, math.exp(log_c)) if log_c < 0 else None,
    )


def _ratios(q: Tensor, k: Tensor, exact: Tensor, features: int, draws: int, seed: int, registry: Registry) -> Tensor:
    """P'/P [draws, N, N]: the heads of one feature map are independent draws."""
    found = []
    for start in range(0, draws, _CHUNK):
        heads = min(_CHUNK, draws - start)
        drawn = registry.feature_map(
            "favor+", dim=q.size(2), heads=heads, num_features=features, orthogonal=False, seed=seed + start
        )
        eye = torch.eye(q.size(0), dtype=q.dtype)[:, None].expand(-1, heads, -1)
        with torch.no_grad():
            linear = linear_attention(q.expand(-1, heads, -1), k.expand(-1, heads, -1), eye, features=drawn)
        found.append(linear.transpose(0, 1) / exact)
    return torch.cat(found)


def _inside(mean: Tensor, error: Tensor, c: float) -> bool:
    factor = lemma_factor(c)
    return bool((mean - 3 * error <= factor).all() and (mean + 3 * error >= 1 / factor).all())


def _record(point: Point) -> dict[str, Entry]:
    known = point.c < 1
    return {
        "r": point.features,
        "std of q and k": point.scale,
        "c_max": float(f"{point.c:.4g}"),
        "lower bound": float(f"{1 / lemma_factor(point.c):.4g}") if known else None,
        "lowest mean P'/P": float(f"{point.lowest:.4g}"),
        "highest mean P'/P": float(f"{point.highest:.4g}"),
        "upper bound": float(f"{lemma_factor(point.c):.4g}") if known else None,
        "one draw, 1 %": float(f"{point.single_low:.4g}"),
        "one draw, 99 %": float(f"{point.single_high:.4g}"),
        "within": {None: "c >= 1", True: "yes", False: "no"}[point.inside],
    }


def _bound(points: list[Point]) -> Claim:
    tested = [point for point in points if point.inside is not None]
    if not tested:
        return judge("lemma1.bound", None, "no setting had c < 1")
    held = [point for point in tested if point.inside]
    used = [math.log(max(point.highest, 1 / point.lowest)) / math.log(lemma_factor(point.c)) for point in tested]
    return judge(
        "lemma1.bound",
        len(held) == len(tested),
        f"within the bound at {len(held)} of {len(tested)} settings with c < 1; the means use {100 * max(used):.0f} % "
        "of it at most, in logs",
    )


def _assumption(points: list[Point], settings: Settings) -> Claim:
    unit = [point for point in points if point.scale == 1.0]
    if not unit:
        return judge("lemma1.assumption", None, "unit variance was not among the scales")
    listed = ", ".join(f"c_max = {point.c:.3g} at r = {point.features}" for point in unit)
    passing = [point.scale for point in points if point.c < 1]
    most = f"; c < 1 up to standard deviation {max(passing):g}" if passing else ""
    return judge("lemma1.assumption", all(point.c < 1 for point in unit), f"d = {settings.dim}: {listed}{most}")


def _picture(points: list[Point]) -> Picture:
    figure, axes = panels(2)
    left, right = axes[0]
    grid = np.linspace(1e-3, 0.99, 200)
    upper = (1 + grid) / (1 - grid)
    left.fill_between(grid, 1 / upper, upper, color="#4c78a8", alpha=0.15, label="Lemma 1")
    for colour, features in enumerate(sorted({point.features for point in points})):
        own = [point for point in points if point.features == features]
        seen = [point for point in own if point.c < 30]
        c = [point.c for point in seen]
        left.vlines(c, [p.single_low for p in seen], [p.single_high for p in seen], color=f"C{colour}", alpha=0.3)
        left.plot(c, [p.highest for p in seen], "^", ms=5, color=f"C{colour}", label=f"means, r = {features}")
        left.plot(c, [p.lowest for p in seen], "v", ms=5, color=f"C{colour}")
        logs = [point.log_c / math.log(10) for point in own]
        right.plot([point.scale for point in own], logs, "o-", ms=3, color=f"C{colour}", label=f"r = {features}")
    left.axvline(1, color="black", lw=1, ls=":")
    left.set(xscale="log", yscale="log", xlim=(0.02, 30), ylim=(0.02, 50))
    finish(left, "c_max (the lemma ends at 1)", "P'/P", "extremes of the means; bars: single draws, 1 to 99 %")
    right.axhline(0, color="black", lw=1, ls=":")
    right.axvline(1, color="grey", lw=1, ls="--")
    right.set(xscale="log", ylim=(-2.5, 8))
    finish(
        right, "standard deviation of the entries of q and k", "log10 c_max", "the assumption c < 1 (below the line)"
    )
    return Picture(name="lemma1", title="Lemma 1 against measured attention", figure=figure)
