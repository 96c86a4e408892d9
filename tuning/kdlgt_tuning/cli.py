"""``kdlgt-sweep`` and ``python tuning/sweep.py``: hyperparameter search with Ray Tune."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from kdlgt.errors import ArgumentError, KdlgtError
from kdlgt_tuning.settings import Settings

if TYPE_CHECKING:
    from kdlgt_tuning.outcome import TrialOutcome
    from kdlgt_tuning.sweep import Plan

DEBUG = "--debug"
INTERRUPTED = 130
NOTHING = 1


def sweep(
    config: pathlib.Path,
    /,
    *,
    settings: Annotated[Settings, Parameter(name="*")] = Settings(),  # noqa: B008 - frozen
) -> int:
    """Search for the best hyperparameters of a config; write best.toml, results.csv and report.html.

    Parameters
    ----------
    config
        The TOML file to start from, as for kdlgt train.
    """
    from kdlgt_tuning.sweep import begin, finish, plan_sweep
    from kdlgt_tuning.tables import print_outcomes, watching

    plan = plan_sweep(config, settings)
    if importlib.util.find_spec("ray") is None:
        raise ArgumentError("Ray is not installed; `pip install 'kdlgt[tune]'` brings it")
    from kdlgt_tuning.ray_search import search

    console, job = _console(), plan.job
    begin(plan)
    with watching(console, job.space, job.objective, plan.trials) as watch:
        outcomes = search(plan, watch)
    finish(plan, outcomes)
    print_outcomes(console, outcomes, job.space, job.objective)
    return _tell(console, plan, outcomes)


def _tell(console: Console, plan: Plan, outcomes: Sequence[TrialOutcome]) -> int:
    """What to do next; 130 after an interruption, as after any Ctrl-C, and 1 when no trial has a score."""
    folder = plan.folder
    if folder.best.exists():
        _say(console, f"{folder.report} has the plots; train the best again with: kdlgt train {folder.best}")
    missing = plan.trials - sum(outcome.status not in ("unfinished", "running") for outcome in outcomes)
    if missing:
        _say(console, f"{missing} of {plan.trials} trials are left; go on with the same command and --resume")
    if missing and plan.settings.time_budget is None:
        return INTERRUPTED
    return 0 if missing or any(outcome.scored for outcome in outcomes) else NOTHING


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _console() -> Console:
    """Standard output; tables keep their width where it is no terminal."""
    found = Console()
    return found if found.is_terminal else Console(width=180)


def build_app() -> App:
    """The cyclopts application."""
    app = App(
        name="kdlgt-sweep",
        help_epilogue=f"Errors are one message and exit code 2; {DEBUG} shows the traceback too.",
        help_format="plaintext",
        version_flags=[],
    )
    app.default(sweep)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command line and exit: 0 when it worked, 2 with one message when it did not."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    sys.exit(run([token for token in given if token != DEBUG], debug=debug))


def run(tokens: Sequence[str], *, debug: bool = False) -> int:
    """Run one command line and return its exit code."""
    errors = Console(stderr=True)
    try:
        code = build_app()(
            tokens, exit_on_error=False, error_console=errors, result_action="return_int_as_exit_code_else_zero"
        )
    except CycloptsError:
        return 2
    except KdlgtError as error:
        if debug:
            errors.print_exception()
        errors.print("[bold red]error:[/bold red]", end=" ")
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return 2
    return int(code)
