"""The paper's claims about Table 2 against our cells."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping

import attrs

from kdlgt.experiments.reproduce.claims import Claim, judge
from kdlgt.experiments.reproduce.datasets import DATA_SETS
from kdlgt.experiments.reproduce.outcome import Budget

CLOSE = 0.02
"""Points of accuracy or ROC-AUC within which a loss is not significant; for errors, this share of the error."""

SHARP = 0.05
"""Points from which a drop is sharp."""

GNN = ("gps", "gcn", "gin")
"""Systems that pass messages along edges between layers."""

OURS = ("lsat", "sapdgt", "sapdgt-mean")
QUADRATIC = ("sat", "sapdgt-exact", "graphormer")
BASELINES = ("gps", "gps-without-gnn", "gkat", "no-rpe", "gcn", "gin")

GRAPH_LEVEL = tuple(data.name for data in DATA_SETS if data.level == "graph")


@attrs.frozen(kw_only=True)
class Score:
    """A system on a data set.

    Attributes:
        values: test metric of each seed; none where a seed has none.
        metric: its name.
        lower_is_better: whether it is an error.
        remark: what stands in the table without values.
    """

    values: tuple[float, ...]
    metric: str = ""
    lower_is_better: bool = False
    remark: str = ""

    def __str__(self) -> str:
        if not self.values:
            return self.remark
        deviation = f" ± {statistics.stdev(self.values):.3f}" if len(self.values) > 1 else ""
        return f"{statistics.fmean(self.values):.3f}{deviation}"

    @property
    def goodness(self) -> float:
        """The mean, with its sign such that more is better."""
        return statistics.fmean(self.values) * (-1 if self.lower_is_better else 1)

    @property
    def variance(self) -> float:
        """Squared standard error of the mean; infinite for one seed."""
        return statistics.variance(self.values) / len(self.values) if len(self.values) > 1 else math.inf


Results = Mapping[tuple[str, str], Score]


@attrs.frozen(kw_only=True)
class Difference:
    """One system against another on a data set.

    Attributes:
        data: the data set.
        gain: by how much the first is better; for errors, as a share of the second's.
        noise: two standard errors of that.
    """

    data: str
    gain: float
    noise: float

    def __str__(self) -> str:
        noise = f" ± {self.noise:.3f}" if math.isfinite(self.noise) else " (one seed)"
        return f"{self.data} {self.gain:+.3f}{noise}"


def difference(results: Results, data: str, first: str, second: str) -> Difference | None:
    """The gain of ``first`` over ``second``; ``None`` when one of them has no value."""
    a, b = results.get((data, first)), results.get((data, second))
    if a is None or b is None or not a.values or not b.values:
        return None
    scale = 1 / abs(b.goodness) if b.lower_is_better and b.goodness else 1.0
    noise = 2 * math.sqrt(a.variance + b.variance) * scale
    return Difference(data=data, gain=(a.goodness - b.goodness) * scale, noise=noise)


def judge_all(results: Results, budget: Budget) -> tuple[Claim, ...]:
    """Every claim about Table 2; below the full budget the figures stand there, and nothing is decided."""
    claims = (
        _close(results, "table2.lsat-close", "lsat", "sat"),
        _close(results, "table2.sapdgt-close", "sapdgt", "graphormer"),
        *(_ahead(results, "lsat", "sat", data) for data in ("cora", "citeseer")),
        judge("table2.lsat-ahead-lastfm-asia", None, _without_features(results)),
        *(_ahead(results, "sapdgt", "graphormer", data) for data in ("mutag", "proteins", "nci1")),
        _best(results, "table2.best-overall", ("ogbg-molhiv", "cox2_md", "proteins", "nci1"), BASELINES + QUADRATIC),
        _drop(results),
        _best(results, "table2.best-without-gnn", GRAPH_LEVEL, tuple(set(BASELINES) - set(GNN))),
        _homophilous(results),
        judge("table2.lastfm-margin", None, _without_features(results)),
    )
    return claims if budget == "full" else tuple(_undecided(claim, budget) for claim in claims)


def _undecided(claim: Claim, budget: Budget) -> Claim:
    """What samples and a few epochs show is no test of a claim about trained systems."""
    if claim.verdict == "not tested":
        return claim
    would = "would hold" if claim.verdict == "holds" else "would not hold"
    shown = f"{budget} budget, untuned small models; there it {would}"
    return attrs.evolve(claim, verdict="not tested", measured=f"{shown}: {claim.measured}")


def _without_features(results: Results) -> str:
    found = difference(results, "lastfm-asia", "lsat", "sat")
    measured = f"; without them, LSAT against SAT: {found}" if found else ""
    return f"the node features are not available to us{measured}"


def _differences(results: Results, first: str, second: str, data: Iterable[str]) -> list[Difference]:
    found = (difference(results, name, first, second) for name in data)
    return [entry for entry in found if entry is not None]


def _listed(found: Iterable[Difference]) -> str:
    return ", ".join(map(str, found)) or "no pair of cells has values"


def _close(results: Results, key: str, first: str, second: str) -> Claim:
    found = _differences(results, first, second, [data.name for data in DATA_SETS])
    if not found:
        return judge(key, None, _listed(found))
    return judge(key, all(entry.gain >= -CLOSE for entry in found), f"allowed loss {CLOSE}: {_listed(found)}")


def _ahead(results: Results, first: str, second: str, data: str) -> Claim:
    """Ahead or behind by more than two standard errors; in between nothing is decided."""
    key = f"table2.{first}-ahead-{data}"
    found = difference(results, data, first, second)
    if found is None:
        return judge(key, None, "no pair of cells has values")
    decided = abs(found.gain) > found.noise
    return judge(key, found.gain > 0 if decided else None, f"{found}{'' if decided else ', within the noise'}")


def _drop(results: Results) -> Claim:
    found = _differences(results, "gps-without-gnn", "gps", [data.name for data in DATA_SETS])
    if not found:
        return judge("table2.gps-drop", None, _listed(found))
    drop = -statistics.fmean(entry.gain for entry in found)
    return judge("table2.gps-drop", drop >= SHARP, f"mean drop {drop:.3f} (sharp from {SHARP}): {_listed(found)}")


def _best(results: Results, key: str, data: tuple[str, ...], rivals: tuple[str, ...]) -> Claim:
    """Whether one of ours is at least as good as every rival, on each data set."""
    found = [entry for entry in (_lead(results, name, rivals) for name in data) if entry is not None]
    if len(found) < len(data):
        return judge(key, None, f"cells are missing; {_listed(found)}")
    return judge(key, all(entry.gain >= 0 for entry in found), f"lead over the best other: {_listed(found)}")


def _lead(results: Results, data: str, rivals: tuple[str, ...]) -> Difference | None:
    ours, others = (
        [name for name in names if (score := results.get((data, name))) is not None and score.values]
        for names in (OURS, rivals)
    )
    if not ours or not others:
        return None
    first, second = (max(names, key=lambda name: results[data, name].goodness) for names in (ours, others))
    return difference(results, data, first, second)


def _homophilous(results: Results) -> Claim:
    key, data = "table2.homophilous", ("cora", "citeseer", "pubmed")
    found = [entry for entry in (_lead(results, name, BASELINES) for name in data) if entry is not None]
    if len(found) < len(data):
        return judge(key, None, f"cells are missing; {_listed(found)}")
    return judge(key, all(entry.gain < CLOSE for entry in found), f"lead over the best baseline: {_listed(found)}")
