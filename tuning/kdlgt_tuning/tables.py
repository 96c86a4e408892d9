"""What a person sees of a sweep: a live table on a terminal, a line per trial elsewhere, and the best at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from kdlgt_tuning.objective import Objective
from kdlgt_tuning.outcome import TrialOutcome, counts, pareto_front, ranked
from kdlgt_tuning.space import Space

Watch = Callable[[Sequence[TrialOutcome]], None]
LIVE_ROWS = 15
BEST_ROWS = 10
OVER = ("finished", "stopped", "failed", "out of memory", "lost")


@contextmanager
def watching(console: Console, space: Space, objective: Objective, total: int) -> Iterator[Watch]:
    """A live table of the running trials and the best on a terminal, else one line per trial that is over."""
    if not console.is_terminal:
        yield _line_printer(console, space, objective, total)
        return
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        yield lambda outcomes: live.update(live_table(outcomes, space, objective, total))


def live_table(outcomes: Sequence[TrialOutcome], space: Space, objective: Objective, total: int) -> Table:
    """Running trials first, then the best."""
    running = [outcome for outcome in outcomes if outcome.status == "running"]
    others = [outcome for outcome in ranked(outcomes, objective) if outcome.status in OVER]
    words = ", ".join(f"{number} {status}" for status, number in counts(outcomes).items())
    return trial_table([*running, *others][:LIVE_ROWS], space, objective, f"{total} trials: {words}")


def trial_table(outcomes: Sequence[TrialOutcome], space: Space, objective: Objective, title: str) -> Table:
    """One row per trial."""
    names = short_names([parameter.path for parameter in space.parameters])
    failed = any(outcome.error for outcome in outcomes)
    table = Table(title=title, title_justify="left")
    headings = ["trial", *names.values(), f"val {objective.metric}", "epochs", "s/epoch", "status"]
    for heading in [*headings, "error"] if failed else headings:
        table.add_column(heading, overflow="fold")
    for outcome in outcomes:
        cells = [outcome.name, *(shown(outcome.values.get(path)) for path in names), shown(outcome.score)]
        cells += [str(outcome.epoch), shown(outcome.seconds_per_epoch), outcome.status]
        table.add_row(*cells, *([outcome.error] if failed else []))
    return table


def print_outcomes(console: Console, outcomes: Sequence[TrialOutcome], space: Space, objective: Objective) -> None:
    """The best trials, those that failed with their errors, and the Pareto front when it was asked for."""
    best = [outcome for outcome in ranked(outcomes, objective) if outcome.scored and not outcome.error][:BEST_ROWS]
    words = ", ".join(f"{number} {status}" for status, number in counts(outcomes).items())
    console.print(trial_table(best, space, objective, f"the best of {len(outcomes)} trials ({words})"))
    failed = [outcome for outcome in outcomes if outcome.error]
    if failed:
        console.print(trial_table(failed, space, objective, "trials that failed"))
    if objective.pareto:
        front = pareto_front(outcomes, objective)
        console.print(
            trial_table(front, space, objective, f"Pareto front: val {objective.metric} against time per epoch")
        )


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """The shortest ends of the paths that tell them apart."""
    names: dict[str, str] = {}
    for path in paths:
        keys = path.split(".")
        ends = [".".join(keys[-length:]) for length in range(1, len(keys) + 1)]
        others = [other for other in paths if other != path]
        names[path] = next(end for end in ends if not any(f".{other}".endswith(f".{end}") for other in others))
    return names


def shown(value: object) -> str:
    """A value in a cell; a missing number is a dash."""
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def _line_printer(console: Console, space: Space, objective: Objective, total: int) -> Watch:
    told: set[str] = set()
    names = short_names([parameter.path for parameter in space.parameters])

    def watch(outcomes: Sequence[TrialOutcome]) -> None:
        for outcome in outcomes:
            if outcome.status in OVER and outcome.name not in told:
                told.add(outcome.name)
                values = ", ".join(f"{names[path]}={shown(value)}" for path, value in outcome.values.items())
                tail = outcome.error or f"val {objective.metric} {shown(outcome.score)}"
                line = f"{len(told)}/{total}  {outcome.name}  {values}  {outcome.status}: {tail}"
                console.print(line, markup=False, highlight=False, soft_wrap=True)

    return watch
