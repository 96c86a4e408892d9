"""The paper's claims in its order, and the verdict on each: holds, does not hold, or not tested.

Only what the text of the paper says is here: its tables are not available to us.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import attrs

from kdlgt.errors import unknown_name

Verdict = Literal["holds", "does not hold", "not tested"]

CLAIMS: dict[str, str] = {
    "table1.homogeneity": "Cora, Citeseer and PubMed have high edge homogeneity, LastFM-Asia a low one (section 6.2)",
    "table2.lsat-close": "LSAT loses little against SAT (section 6.2)",
    "table2.sapdgt-close": "SAPDGT loses little against Graphormer (section 6.2)",
    "table2.lsat-ahead-cora": "LSAT is ahead of SAT on Cora (section 6.2)",
    "table2.lsat-ahead-citeseer": "LSAT is ahead of SAT on Citeseer (section 6.2)",
    "table2.lsat-ahead-lastfm-asia": "LSAT is ahead of SAT on LastFM-Asia (section 6.2)",
    "table2.sapdgt-ahead-mutag": "SAPDGT is ahead of Graphormer on MUTAG (section 6.2)",
    "table2.sapdgt-ahead-proteins": "SAPDGT is ahead of Graphormer on PROTEINS (section 6.2)",
    "table2.sapdgt-ahead-nci1": "SAPDGT is ahead of Graphormer on NCI1 (section 6.2)",
    "table2.best-overall": (
        "LSAT or SAPDGT is the best of all on OGBG-MOLHIV, COX2_MD, PROTEINS and NCI1 (section 6.2)"
    ),
    "table2.gps-drop": "GPS drops sharply without its GNN (section 6.2)",
    "table2.best-without-gnn": (
        "LSAT or SAPDGT is the best on all graph-level data sets among linear models without a GNN (section 6.2)"
    ),
    "table2.homophilous": "LSAT and SAPDGT have no advantage over baselines on Cora, Citeseer, PubMed (section 6.2)",
    "table2.lastfm-margin": "LSAT is ahead of the baselines by a wide margin on LastFM-Asia (section 6.2)",
    "figure2.speed": "LSAT is up to 9.63 times as fast as SAT (section 6.2)",
    "figure2.growth": "the acceleration ratio grows linearly with N (section 6.2)",
    "figure2.small-graphs": "the ratio may be below 1 for N <= 2^11.5 at large d (section 6.2)",
    "figure2.width": "the ratio rises with N / d (section 6.2)",
    "figure2.memory": "SAT runs out of memory beyond N = 2^14, LSAT does not (section 6.2)",
    "figure2.linear": "LSAT is linear in N, SAT quadratic (sections 4 and 6.2)",
    "figure3.near-zero": "the distribution of c_max is concentrated around 0 (section 6.2)",
    "figure3.below-one": "c_ij lies in [0, 1) for all i, j (sections 5 and 6.2)",
    "figure3.bottom-layer": (
        "bottom layer: c_max about .1 on average and .3 at most, Lemma 1 factors 1.22 and 1.86 (section 6.2)"
    ),
    "lemma1.bound": "(1 - c)/(1 + c) <= P'/P <= (1 + c)/(1 - c) for c = c_max < 1 (Lemma 1)",
    "lemma1.assumption": "queries and keys of mean 0 and variance 1 have c_ij in [0, 1) (section 5)",
    "sapd.error": "the absolute error between SPD and SAPD is within k (section 4.3)",
    "sapd.double": "min over anchors of SAPD - SPD lies in 0..2k (our correction), in 0..2R under a cap",
    "sapd.linear": "K << N anchors at fixed k, so the cost is linear in N (section 4.3)",
    "sapd.pooling": "pooling over anchors keeps the distance between two nodes in the attention (section 4.3)",
}
"""What the paper says, in our words, by experiment and name."""


@attrs.frozen(kw_only=True)
class Claim:
    """One claim with its verdict.

    Attributes:
        key: a key of :data:`CLAIMS`.
        verdict: holds, does not hold, or not tested.
        measured: the figure measured, or why there is none.
    """

    key: str = attrs.field()
    verdict: Verdict
    measured: str

    @key.validator
    def _known(self, field: attrs.Attribute[str], value: str) -> None:
        if value not in CLAIMS:
            raise unknown_name("claim", value, CLAIMS)

    @property
    def text(self) -> str:
        """The claim in words."""
        return CLAIMS[self.key]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"key": self.key, "claim": self.text, "verdict": self.verdict, "measured": self.measured}


def judge(key: str, holds: bool | None, measured: str) -> Claim:
    """A claim from a truth value; ``None`` is not tested."""
    verdict: Verdict = "not tested" if holds is None else "holds" if holds else "does not hold"
    return Claim(key=key, verdict=verdict, measured=measured)


def lemma_factor(c: float) -> float:
    """Lemma 1's upper factor ``(1 + c) / (1 - c)``; infinite from c = 1 on, where the lemma says nothing."""
    return (1 + c) / (1 - c) if c < 1 else math.inf
