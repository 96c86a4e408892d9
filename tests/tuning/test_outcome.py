from __future__ import annotations

import math
from collections.abc import Callable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdlgt.train.metrics import Monitor
from kdlgt_tuning.objective import Objective
from kdlgt_tuning.outcome import TrialOutcome, counts, outcome_from_metrics, pareto_front, ranked
from kdlgt_tuning.settings import Mode

MakeOutcome = Callable[..., TrialOutcome]
OBJECTIVE = Objective(metric="accuracy", mode="max", monitor=Monitor("accuracy", True))
POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=12)


def names(outcomes: list[TrialOutcome]) -> list[str]:
    return [outcome.name for outcome in outcomes]


def test_finished_trials_come_first_and_failed_ones_last(outcome: MakeOutcome) -> None:
    trials = [
        outcome("failed", math.nan, status="failed"),
        outcome("stopped", 0.9, status="stopped"),
        outcome("slow", 0.8, 2.0),
        outcome("fast", 0.8, 1.0),
        outcome("low", 0.1),
    ]
    assert names(ranked(trials, OBJECTIVE)) == ["fast", "slow", "low", "stopped", "failed"]
    lowest = attrs.evolve(OBJECTIVE, mode="min")
    assert names(ranked(trials, lowest)) == ["low", "fast", "slow", "stopped", "failed"]


@given(POINTS, st.sampled_from(["max", "min"]))
def test_the_front_holds_what_nothing_dominates(points: list[tuple[int, int]], mode: Mode) -> None:
    objective = attrs.evolve(OBJECTIVE, mode=mode)
    trials = [
        TrialOutcome(name=str(index), sample={}, values={}, status="finished", score=score, seconds_per_epoch=seconds)
        for index, (score, seconds) in enumerate(points)
    ]

    def costs(trial: TrialOutcome) -> tuple[float, float]:
        return objective.key(trial.score), trial.seconds_per_epoch

    def dominates(one: TrialOutcome, other: TrialOutcome) -> bool:
        mine, theirs = costs(one), costs(other)
        return mine != theirs and mine[0] <= theirs[0] and mine[1] <= theirs[1]

    front = pareto_front(trials, objective)
    best = {costs(trial) for trial in trials if not any(dominates(other, trial) for other in trials)}
    assert {costs(trial) for trial in front} == best
    assert len(front) == len(best)


def test_only_finished_trials_are_on_the_front(outcome: MakeOutcome) -> None:
    assert names(pareto_front([outcome("stopped", 0.9, 0.1, status="stopped"), outcome("done", 0.5)], OBJECTIVE)) == [
        "done"
    ]


def test_an_outcome_from_a_report() -> None:
    made = outcome_from_metrics(
        "a", {}, {}, {"status": "running", "score": 0.5, "epoch": 2, "other": 1}, status="stopped"
    )
    assert (made.status, made.score, made.epoch) == ("stopped", 0.5, 2)
    silent = outcome_from_metrics("a", {}, {}, {})
    assert silent.status == "unfinished"
    assert not silent.scored


def test_counts(outcome: MakeOutcome) -> None:
    assert counts([outcome("a", 1.0), outcome("b", 1.0), outcome("c", 1.0, status="lost")]) == {
        "finished": 2,
        "lost": 1,
    }


@pytest.mark.parametrize(("mode", "key"), [("max", -0.25), ("min", 0.25)])
def test_lower_keys_are_better(mode: Mode, key: float) -> None:
    assert attrs.evolve(OBJECTIVE, mode=mode).key(0.25) == key
