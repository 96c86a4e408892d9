"""How good the linear approximation is on sampled rows: relative error, effective sample size, total variation."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator
from typing import Any

import attrs
import torch
from torch import Tensor

from kdlgt.algebra import Decomposition, log_inner
from kdlgt.attention.inputs import AttentionInputs, gather_inputs
from kdlgt.errors import AlgebraError, ApproximationWarning, ArgumentError, require_at_least
from kdlgt.features import FavorPlus, FeatureMap, LogFeatures

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles of log c that are reported."""

COLLAPSED_SIZE = 2.0
"""A head has collapsed when half of its rows rest on fewer effective features than this, and half are further ..."""

TOLERATED_VARIATION = 0.25
"""... from the exact ones in total variation than this; or when, whatever the features, ..."""

COLLAPSED_VARIATION = 0.9
"""... half of its rows are further than this."""

_ROW_ELEMENTS = 1 << 24
_TILE_ELEMENTS = 1 << 22
_DISTRIBUTION_KEYS = 256


@attrs.frozen(eq=False, kw_only=True)
class AttentionHealth:
    """What the sampled rows say about each head.

    Attributes:
        num_features: r.
        rows: [S] the sampled nodes.
        effective_size: [H, S] effective sample size of the features, in 1..r for positive features.
        total_variation: [H, S] half the l1 distance between the linear and the exact attention row.
        log_c: [H, P] log relative error of one entry, over pairs of sampled rows and keys; ``None`` for a map that has
            no relative variance, because it does not estimate the softmax.
        log_c_max: [H] its maximum over all keys of the sampled rows, or ``None``.
        estimates_softmax: whether total variation measures an error; other maps have a kernel of their own.
    """

    num_features: int
    rows: Tensor
    effective_size: Tensor
    total_variation: Tensor
    log_c: Tensor | None
    log_c_max: Tensor | None
    estimates_softmax: bool

    @property
    def collapsed(self) -> tuple[bool, ...]:
        """Which heads have collapsed, by the medians over the sampled rows."""
        collapsed = self.effective_size.median(1).values < COLLAPSED_SIZE
        if self.estimates_softmax:
            variation = self.total_variation.median(1).values
            collapsed = collapsed & (variation > TOLERATED_VARIATION) | (variation > COLLAPSED_VARIATION)
        return tuple(collapsed.tolist())

    @property
    def lemma_factor(self) -> Tensor | None:
        """``(1 + c) / (1 - c)`` [H] with ``c = max c_ij``: the factor of Lemma 1; infinite from c = 1 on."""
        if self.log_c_max is None:
            return None
        c = torch.exp(self.log_c_max)
        return torch.where(c < 1, (1 + c) / (1 - c), math.inf)

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain values of each head; quantities that do not exist are ``None``."""
        return [self._head(head) for head in range(self.effective_size.size(0))]

    def _head(self, head: int) -> dict[str, Any]:
        size, variation = self.effective_size[head], self.total_variation[head]
        return {
            "head": head,
            "collapsed": self.collapsed[head],
            "num_features": self.num_features,
            "effective_size": float(size.median()),
            "effective_share": float(size.median()) / self.num_features,
            "total_variation": float(variation.mean()),
            "total_variation_median": float(variation.median()),
            **self._error(head),
        }

    def _error(self, head: int) -> dict[str, Any]:
        if self.log_c is None or self.log_c_max is None or self.lemma_factor is None:
            return dict.fromkeys(("log_c_max", "c_max", "lemma_factor", "log_c_quantiles"))
        values = torch.quantile(self.log_c[head], self.log_c.new_tensor(QUANTILES)).tolist()
        return {
            "log_c_max": float(self.log_c_max[head]),
            "c_max": _finite_or_none(torch.exp(self.log_c_max[head])),
            "lemma_factor": _finite_or_none(self.lemma_factor[head]),
            "log_c_quantiles": dict(zip(map(str, QUANTILES), values, strict=True)),
        }


def _finite_or_none(value: Tensor) -> float | None:
    return float(value) if math.isfinite(value) else None


def attention_health(
    q: Tensor,
    k: Tensor,
    bias: Decomposition | None = None,
    *,
    ptr: Tensor | None = None,
    features: FeatureMap | None = None,
    scale: float | None = None,
    rows: int = 64,
    generator: torch.Generator | None = None,
    warn: bool = True,
) -> AttentionHealth:
    """Measure the linear approximation on sampled rows, in O(N) per row.

    For entries: ``c_ij``, the relative root mean square error of ``phi(q_i).phi(k_j)``, from the map's own variance.
    For rows: the effective sample size ``(sum_l w_l)^2 / sum_l w_l^2`` of ``w_l = phi_l(q_i) sum_j psi_l(k_j)``, and
    the total variation distance to the exact row.

    Args:
        q, k, bias, ptr, features, scale: as for :func:`kdlgt.attention.linear_attention`.
        rows: how many nodes to sample; all of them when there are fewer.
        generator: draws the nodes, on the CPU; default: one with seed 0.
        warn: warn when a head has collapsed.

    Returns:
        The report, computed in float64, on the CPU.

    Raises:
        ArgumentError: as linear attention, or ``rows`` below 1.

    Source: KDLGT, IJCAI 2023, Lemma 1; Kish, Survey Sampling, 1965, for the effective sample size.
    """
    require_at_least("rows", rows, 1)
    with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
        inputs = gather_inputs(q, k, torch.zeros_like(q[..., :1]), bias, ptr, scale)
        chosen = features if features is not None else FavorPlus(inputs.query.size(2), 128, q.size(1)).to(q.device)
        _check_width(inputs, chosen)
        conditioned = _conditioned(inputs, chosen)
        sample = _sample(q.size(0), rows, generator).to(q.device)
        health = _measure(conditioned, chosen, sample)
    if warn and any(health.collapsed):
        warnings.warn(collapse_message(health), ApproximationWarning, stacklevel=2)
    return health


def collapse_message(health: AttentionHealth, where: str = "linear attention") -> str:
    """What is wrong and what to do, for a report with collapsed heads."""
    heads = [head for head, collapsed in enumerate(health.collapsed) if collapsed]
    size = float(health.effective_size[heads].median(1).values.min())
    variation = float(health.total_variation[heads].median(1).values.max())
    return (
        f"{where} has collapsed in heads {heads}: half of the rows rest on {size:.2f} or fewer effective features of "
        f"{health.num_features}, or are {variation:.2f} or more from the softmax in total variation. Scores hold "
        "for these features; to stay near the softmax, train with model.attention normalise and balance = true and "
        "redraw_every = 10, take more features, or attend exactly"
    )


def _check_width(inputs: AttentionInputs, features: FeatureMap) -> None:
    if features.dim != inputs.query.size(2) or features.heads not in (1, inputs.query.size(0)):
        raise ArgumentError(
            f"the feature map has dim={features.dim} and heads={features.heads}; queries with the bias factors are "
            f"{inputs.query.size(2)} wide, heads {inputs.query.size(0)}"
        )


def _conditioned(inputs: AttentionInputs, features: FeatureMap) -> AttentionInputs:
    """Inputs as the map sees them, in float64; the map is put in evaluation mode, so that it gathers no moments."""
    training = features.training
    features.eval()
    weight = inputs.key_log_weight
    query, key, weight = features.precondition(
        inputs.query.double(), inputs.key.double(), None if weight is None else weight.double()
    )
    features.train(training)
    return attrs.evolve(inputs, query=query, key=key, key_log_weight=weight)


def _sample(nodes: int, rows: int, generator: torch.Generator | None) -> Tensor:
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    return torch.randperm(nodes, generator=generator)[:rows].sort().values


@attrs.frozen(eq=False)
class _Rows:
    """Sampled queries of one segment against its keys, for one softmax.

    Attributes:
        query: [H, S, D]. key: [H, n, D]. weight: [H or 1, n] key log-weights.
        kernel: log sides [H, S, K] and [H, n, K], or ``None``.
        near: [H, S, n] exact corrections of listed pairs, NaN elsewhere, or ``None``.
    """

    query: Tensor
    key: Tensor
    weight: Tensor
    kernel: tuple[Tensor, Tensor] | None
    near: Tensor | None


def _measure(inputs: AttentionInputs, features: FeatureMap, sample: Tensor) -> AttentionHealth:
    groups = list(_groups(inputs, sample))
    sizes, variations, errors, largest = [], [], [], []
    for rows, keys in groups:
        size, variation = _row_quantities(inputs, features, rows, keys)
        sizes.append(size)
        variations.append(variation)
        with contextlib.suppress(AlgebraError):
            top, some = _entry_errors(features, inputs.query[:, rows], inputs.key[:, keys])
            largest.append(top)
            errors.append(some)
    return AttentionHealth(
        num_features=features.num_features,
        rows=torch.cat([rows for rows, _ in groups]).cpu(),
        effective_size=torch.cat(sizes, 1).cpu(),
        total_variation=torch.cat(variations, 1).cpu(),
        log_c=torch.cat(errors, 1).cpu() if errors else None,
        log_c_max=torch.stack(largest).amax(0).cpu() if largest else None,
        estimates_softmax=features.estimates_softmax,
    )


def _groups(inputs: AttentionInputs, sample: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Sampled rows of one segment with the nodes that they attend to, few enough rows at once to fit in memory."""
    heads, nodes = inputs.query.shape[:2]
    if inputs.segment is None:
        everything = torch.arange(nodes, device=sample.device)
        parts = [(sample, everything)]
    else:
        own = inputs.segment[sample]
        parts = [(sample[own == part], (inputs.segment == part).nonzero().flatten()) for part in own.unique()]
    for rows, keys in parts:
        for some in rows.split(max(1, _ROW_ELEMENTS // (heads * keys.numel()))):
            yield some, keys


def _row_quantities(inputs: AttentionInputs, features: FeatureMap, rows: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Effective sample size and total variation [H, S], averaged over a mixture's components as attention is."""
    linear: Tensor | float = 0.0
    exact: Tensor | float = 0.0
    size: Tensor | float = 0.0
    for problem, share in _components(inputs, rows, keys):
        part_linear, part_exact, part_size = _one_softmax(problem, features)
        linear, exact = linear + share * part_linear, exact + share * part_exact
        size = size + share[..., 0] * part_size
    assert isinstance(size, Tensor)
    difference = linear - exact
    assert isinstance(difference, Tensor)
    return size, difference.abs().sum(-1) / 2


def _components(inputs: AttentionInputs, rows: Tensor, keys: Tensor) -> Iterator[tuple[_Rows, Tensor]]:
    """Each softmax of a mixture with its share [1, S, 1] of each row; without a mixture the one softmax."""
    lowered = inputs.lowered
    weight = torch.zeros_like(inputs.key[:1, :, 0]) if inputs.key_log_weight is None else inputs.key_log_weight
    kernel = None
    if lowered.kernel is not None:
        heads = inputs.query.size(0)
        query, key = lowered.kernel.log_query_features[rows], lowered.kernel.log_key_features[keys]
        kernel = (_heads_first(query, heads), _heads_first(key, heads))
    problem = _Rows(inputs.query[:, rows], inputs.key[:, keys], weight[:, keys], kernel, _near(inputs, rows, keys))
    if lowered.mixture is None:
        yield problem, weight.new_ones(1, 1, 1)
        return
    valid = lowered.mixture.valid[rows].to(weight.dtype)
    shares = valid / valid.sum(1, keepdim=True)
    for column, share in zip(lowered.mixture.column[keys].permute(2, 1, 0), shares.T, strict=True):
        yield attrs.evolve(problem, weight=problem.weight + column), share[None, :, None]


def _heads_first(side: Tensor, heads: int) -> Tensor:
    return side.double().transpose(0, 1).expand(heads, -1, -1)


def _near(inputs: AttentionInputs, rows: Tensor, keys: Tensor) -> Tensor | None:
    """Values of the listed pairs [H, S, n], NaN where no pair is listed."""
    sparse = inputs.lowered.sparse
    if sparse is None:
        return None
    place = torch.full((2, inputs.query.size(1)), -1, dtype=torch.long, device=rows.device)
    place[0, rows] = torch.arange(rows.numel(), device=rows.device)
    place[1, keys] = torch.arange(keys.numel(), device=rows.device)
    i, j = place[0, sparse.pairs[0]], place[1, sparse.pairs[1]]
    inside = (i >= 0) & (j >= 0)
    near = inputs.query.new_full((sparse.num_heads, rows.numel(), keys.numel()), math.nan)
    near[:, i[inside], j[inside]] = sparse.values[inside].T.to(near.dtype)
    return near


def _one_softmax(problem: _Rows, features: FeatureMap) -> tuple[Tensor, Tensor, Tensor]:
    """The linear row, the exact row [H, S, n] and the effective sample size [H, S]."""
    kernel = _kernel(problem)
    phi, estimate, totals, shift = _estimates(problem, features, kernel)
    logits = problem.query @ problem.key.transpose(1, 2) + problem.weight[:, None] + kernel
    if problem.near is not None:
        known = ~torch.isnan(problem.near)
        log = estimate.clamp_min(torch.finfo(estimate.dtype).tiny).log() + shift
        exact = torch.where(known, (logits if features.estimates_softmax else log) + problem.near, logits)
        logits = exact
        top = torch.where(known, exact - shift, 0.0).amax(-1, keepdim=True)
        estimate = torch.where(known, torch.exp(exact - shift - top), estimate * torch.exp(-top))
    weights = phi * totals
    size = weights.sum(-1).square() / weights.square().sum(-1).clamp_min(torch.finfo(weights.dtype).tiny)
    denominator = estimate.sum(-1, keepdim=True)
    linear = estimate / torch.where(denominator == 0, 1.0, denominator)
    return linear, torch.softmax(logits, -1).nan_to_num(nan=0.0), size


def _kernel(problem: _Rows) -> Tensor:
    """``log(F G^T)`` [H, S, n], or zero [1, 1, 1]."""
    if problem.kernel is None:
        return problem.weight.new_zeros(1, 1, 1)
    query, key = problem.kernel
    step = max(1, _TILE_ELEMENTS // (query.size(0) * query.size(1) * query.size(2)))
    return torch.cat([log_inner(query[:, :, None], part[:, None]) for part in key.split(step, 1)], -1)


def _estimates(problem: _Rows, features: FeatureMap, kernel: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What the features estimate, tile by tile over the keys.

    Returns:
        Query features [H, S, r], unnormalised rows [H, S, n], the sum of each key feature as a row sees it
        [H, S or 1, r], and the log shift [H, S, 1] that was taken out of rows.
    """
    step = max(1, _TILE_ELEMENTS // (problem.query.size(0) * max(features.num_features, problem.query.size(2))))
    tiles = list(zip(problem.key.split(step, 1), problem.weight.split(step, 1), strict=True))
    tops = [_log_keys(features, key, weight).log.amax(1, keepdim=True) for key, weight in tiles]
    top = _finite(torch.stack(tops).amax(0))
    mapped = features(problem.query, "query")
    row = _finite((mapped.log + top).amax(-1, keepdim=True))
    phi = _signed(torch.exp(mapped.log + top - row), mapped)
    kernel_row = _finite(kernel.amax(-1, keepdim=True))
    share = torch.exp(kernel - kernel_row)
    estimates, totals = [], torch.zeros_like(phi)
    for at, (key, weight) in enumerate(tiles):
        logs = _log_keys(features, key, weight)
        psi = _signed(torch.exp(logs.log - top), logs)
        part = share if share.size(-1) == 1 else share[..., at * step : at * step + key.size(1)]
        estimates.append(phi @ psi.transpose(1, 2) * part)
        totals += psi.sum(1, keepdim=True) if share.size(-1) == 1 else part @ psi
    return phi, torch.cat(estimates, -1), totals, row + kernel_row


def _log_keys(features: FeatureMap, key: Tensor, weight: Tensor) -> LogFeatures:
    mapped: LogFeatures = features(key, "key")
    return attrs.evolve(mapped, log=mapped.log + weight[..., None])


def _signed(magnitude: Tensor, features: LogFeatures) -> Tensor:
    return magnitude if features.sign is None else magnitude * features.sign


def _finite(shift: Tensor) -> Tensor:
    return torch.where(shift == -math.inf, 0.0, shift)


def _entry_errors(features: FeatureMap, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Largest log c [H], and log c of the rows with up to 256 keys spread over the segment [H, P]."""
    few = key[:, :: -(-key.size(1) // _DISTRIBUTION_KEYS)]
    step = max(1, _TILE_ELEMENTS // query.numel())
    tops = [_log_c(features, query, part).amax((1, 2)) for part in key.split(step, 1)]
    return torch.stack(tops).amax(0), _log_c(features, query, few).flatten(1)


def _log_c(features: FeatureMap, query: Tensor, key: Tensor) -> Tensor:
    """``log c = (log relative variance - log r) / 2`` of all pairs [H, S, n]; where q = -k, c = 0 reads exp(-1000)."""
    variance = features.log_relative_variance(query[:, :, None], key[:, None])
    return (variance.clamp_min(-2000.0) - math.log(features.num_features)) / 2
