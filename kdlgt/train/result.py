"""The outcome of a run."""

from __future__ import annotations

from typing import Any

import attrs

from kdlgt.train.metrics import Scores


@attrs.frozen(kw_only=True)
class RunResult:
    """What ``result.json`` holds.

    Attributes:
        test, val: metrics of the best epoch's weights.
        metric: the metric that chose it.
        best_epoch: the best epoch by the validation metric.
        epochs: completed epochs.
        seconds: training time, evaluation included.
        parameters: number of trained parameters.
        seed: the run's seed.
        data: name of the data set.
        attention: ``linear``, ``exact`` or ``auto``.
        rpe: names of the encodings.
        exact_graphs, graphs: how many graphs of the data set attend exactly, and how many there are.
    """

    test: Scores
    val: Scores
    metric: str
    best_epoch: int
    epochs: int
    seconds: float
    parameters: int
    seed: int
    data: str
    attention: str
    rpe: tuple[str, ...]
    exact_graphs: int
    graphs: int

    @property
    def attention_in_words(self) -> str:
        """The mode; of ``auto`` also what it chose."""
        if self.attention != "auto":
            return self.attention
        return f"auto, exact on {self.exact_graphs:,} of {self.graphs:,} graphs"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return attrs.asdict(self)
