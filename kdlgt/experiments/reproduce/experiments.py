"""Run one experiment, or all of them, into folders with a report page."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence

import attrs

from kdlgt.errors import KdlgtError, unknown_name
from kdlgt.experiments.reproduce.folder import write_outcome
from kdlgt.experiments.reproduce.outcome import Outcome, Request
from kdlgt.experiments.reproduce.report import Section, write_report
from kdlgt.train.run_folder import environment

EXPERIMENTS = ("table1", "lemma1", "sapd", "figure2", "figure3", "table2")
"""In the order in which ``all`` runs them, the longest last."""

Run = Callable[[Request], Outcome]


def experiment(name: str) -> Run:
    """The function of an experiment.

    Raises:
        UnknownNameError: there is no such experiment.
    """
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    found: Run = importlib.import_module(f"kdlgt.experiments.reproduce.{name}").run
    return found


def run_one(request: Request, run: Run | None = None) -> Section:
    """Run the experiment that was asked for, write its folder and its page.

    Raises:
        KdlgtError: the experiment cannot be run.
    """
    start = time.perf_counter()
    outcome = (experiment(request.experiment) if run is None else run)(request)
    seconds = time.perf_counter() - start
    write_outcome(outcome, request, seconds=seconds)
    section = Section(
        name=request.experiment, folder=request.folder, command=request.command, seconds=seconds, outcome=outcome
    )
    write_report(request.folder / "report.html", outcome.title, [section], environment(request.seed))
    return section


def run_all(request: Request, names: Sequence[str] = EXPERIMENTS) -> list[Section]:
    """Run experiments one after another into folders of their own, and write one page of all of them.

    One that cannot be run is on the page with its reason. The page is written anew after each, so that an interrupted
    run leaves what it has.
    """
    sections: list[Section] = []
    for name in names:
        own = attrs.evolve(request, experiment=name, folder=request.folder / name)
        start = time.perf_counter()
        try:
            sections.append(run_one(own))
        except KdlgtError as error:
            seconds = time.perf_counter() - start
            sections.append(
                Section(
                    name=name,
                    folder=own.folder,
                    command=own.command,
                    seconds=seconds,
                    outcome=None,
                    reason=str(error),
                )
            )
        write_report(
            request.folder / "report.html", "KDLGT, IJCAI 2023: reproduced", sections, environment(request.seed)
        )
    return sections
