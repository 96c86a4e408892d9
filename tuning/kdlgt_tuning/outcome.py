"""What came out of the trials: their order, the best, the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import attrs

from kdlgt_tuning.objective import Objective
from kdlgt_tuning.trial import Status


@attrs.frozen(kw_only=True)
class TrialOutcome:
    """One trial, finished or not.

    Attributes:
        name: its id.
        sample: values by path, as the search engine drew them.
        values: plain config values by path.
        status: how far it came.
        score: the objective's metric at the best epoch so far; NaN before the first.
        epoch, best_epoch: completed epochs, and the best of them.
        seconds: training time.
        seconds_per_epoch: the median epoch.
        error: what went wrong.
        folder: where its last checkpoint is, a complete run folder.
    """

    name: str
    sample: Mapping[str, Any] = attrs.field(repr=False)
    values: Mapping[str, Any]
    status: Status
    score: float = math.nan
    epoch: int = 0
    best_epoch: int = 0
    seconds: float = 0.0
    seconds_per_epoch: float = math.nan
    error: str = ""
    folder: str = ""

    @property
    def scored(self) -> bool:
        """Whether it has a score to compare."""
        return not math.isnan(self.score)


METRICS = ("score", "epoch", "best_epoch", "seconds", "seconds_per_epoch", "error")


def outcome_from_metrics(
    name: str, sample: Mapping[str, Any], values: Mapping[str, Any], metrics: Mapping[str, Any], **changes: Any
) -> TrialOutcome:
    """The outcome that a trial's last report describes."""
    known = {key: metrics[key] for key in METRICS if key in metrics}
    status = cast("Status", metrics.get("status", "unfinished"))
    return TrialOutcome(name=name, sample=sample, values=values, **{"status": status, **known, **changes})


def ranked(outcomes: Iterable[TrialOutcome], objective: Objective) -> list[TrialOutcome]:
    """Best first: finished trials, whose score a run repeats, before stopped ones; those without a score last."""

    def key(outcome: TrialOutcome) -> tuple[bool, bool, float, float]:
        score = objective.key(outcome.score) if outcome.scored else math.inf
        return not outcome.scored, outcome.status != "finished", score, outcome.seconds_per_epoch

    return sorted(outcomes, key=key)


def pareto_front(outcomes: Iterable[TrialOutcome], objective: Objective) -> list[TrialOutcome]:
    """Finished trials that no other beats in both score and time per epoch, the fastest first."""
    finished = [outcome for outcome in outcomes if outcome.scored and outcome.status == "finished"]
    front: list[TrialOutcome] = []
    for outcome in sorted(finished, key=lambda one: (one.seconds_per_epoch, objective.key(one.score))):
        if not front or objective.key(outcome.score) < objective.key(front[-1].score):
            front.append(outcome)
    return front


def counts(outcomes: Sequence[TrialOutcome]) -> dict[Status, int]:
    """How many trials ended in which way."""
    found: dict[Status, int] = {}
    for outcome in outcomes:
        found[outcome.status] = found.get(outcome.status, 0) + 1
    return found
