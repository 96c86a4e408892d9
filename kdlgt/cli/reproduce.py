"""``kdlgt reproduce``: the paper's tables and figures, one command each."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Annotated

import attrs
from cyclopts import App, Parameter

from kdlgt.experiments.reproduce.outcome import Budget

if TYPE_CHECKING:
    from kdlgt.experiments.reproduce.experiments import Run
    from kdlgt.experiments.reproduce.outcome import Outcome, Request
    from kdlgt.experiments.reproduce.report import Section

app = App(name="reproduce", help="Run an experiment of the paper, with its claims beside what was measured.")


@attrs.frozen(kw_only=True)
class Options:
    """What every experiment takes.

    Attributes:
        out: folder to write; default: reproduce/<experiment>.
        budget: small runs on two cores in minutes, on samples where need be, medium within hours; full is the paper's
            experiment.
        seed: seed of every draw.
        data_root: folder of data sets; without it $KDLGT_DATA, else a download.
        json: write the outcome to this file too.
    """

    out: pathlib.Path | None = None
    budget: Budget = "small"
    seed: int = 0
    data_root: pathlib.Path | None = None
    json: pathlib.Path | None = None


Common = Annotated[Options, Parameter(name="*")]
DEFAULT = Options()


@app.command
def table1(*, options: Common = DEFAULT) -> None:
    """Statistics of the ten data sets, counted from the data."""
    _one("table1", options)


@app.command
def table2(
    *,
    datasets: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    models: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    seeds: int | None = None,
    memory_limit: float | None = None,
    ray: Annotated[bool, Parameter(negative=())] = False,
    options: Common = DEFAULT,
) -> None:
    """Every system on every data set; cells that are there already are kept.

    Parameters
    ----------
    datasets
        Names of data sets; default: all ten.
    models
        Names of systems; default: all that come with kdlgt.
    seeds
        Runs of each cell; default: 1 at the small budget, 3 at the medium, 5 at the full one.
    memory_limit
        GB that a cell may hold; default: nine tenths of what is available.
    ray
        Run the cells as tasks on a Ray cluster, one CPU and at most one GPU each.
    """
    from kdlgt.experiments.reproduce import table2 as module

    def run(request: Request) -> Outcome:
        limit = None if memory_limit is None else int(memory_limit * 1e9)
        return module.run(request, module.chosen_settings(request, datasets, models, seeds, limit, on_ray=ray))

    extra = [*_listed("--datasets", datasets), *_listed("--models", models)]
    extra += [] if seeds is None else ["--seeds", str(seeds)]
    extra += [] if memory_limit is None else ["--memory-limit", str(memory_limit)]
    _one("table2", options, run, [*extra, *(["--ray"] if ray else [])])


@app.command
def figure2(*, options: Common = DEFAULT) -> None:
    """Acceleration of LSAT over SAT against the number of nodes, and the memory of both."""
    _one("figure2", options)


@app.command
def figure3(*, options: Common = DEFAULT) -> None:
    """Distribution of c_max in a trained LSAT on NCI1, and Lemma 1's factor at it."""
    _one("figure3", options)


@app.command
def lemma1(*, options: Common = DEFAULT) -> None:
    """Lemma 1's bound against measured attention, and where its assumption c < 1 fails."""
    _one("lemma1", options)


@app.command
def sapd(*, options: Common = DEFAULT) -> None:
    """SAPD against SPD: gap, number of anchors, coverage, and what pooling keeps."""
    _one("sapd", options)


@app.command(name="all")
def everything(*, options: Common = DEFAULT) -> None:
    """All of them, with one self-contained HTML page."""
    from kdlgt.cli.tables import write_json
    from kdlgt.experiments.reproduce.experiments import run_all

    request = _request("all", options, [])
    sections = run_all(request)
    for section in sections:
        _show(section)
    write_json(
        options.json,
        {
            section.name: section.outcome.to_dict() if section.outcome else {"reason": section.reason}
            for section in sections
        },
    )
    _point(request)


def _one(name: str, options: Options, run: Run | None = None, extra: list[str] | None = None) -> None:
    from kdlgt.cli.tables import write_json
    from kdlgt.experiments.reproduce.experiments import run_one

    request = _request(name, options, extra or [])
    section = run_one(request, run)
    _show(section)
    assert section.outcome is not None
    write_json(options.json, section.outcome.to_dict())
    _point(request)


def _request(name: str, options: Options, extra: list[str]) -> Request:
    from rich.console import Console

    from kdlgt.experiments.reproduce.outcome import Request

    progress = Console(stderr=True)
    return Request(
        experiment=name,
        folder=options.out or pathlib.Path("reproduce") / name,
        arguments=tuple(extra),
        budget=options.budget,
        seed=options.seed,
        data_root=options.data_root,
        say=lambda line: progress.print(line, style="dim", markup=False, highlight=False, soft_wrap=True),
    )


def _listed(option: str, names: tuple[str, ...]) -> list[str]:
    return [option, *names] if names else []


def _show(section: Section) -> None:
    """The claims of an experiment."""
    from rich.table import Table

    from kdlgt.cli.tables import console

    out = console()
    if section.outcome is None:
        out.print(f"{section.name} could not be run: {section.reason}", style="red", markup=False, soft_wrap=True)
        return
    table = Table("claim", "verdict", "measured", title=section.outcome.title, title_justify="left")
    colour = {"holds": "green", "does not hold": "red", "not tested": "yellow"}
    for claim in section.outcome.claims:
        table.add_row(claim.text, f"[{colour[claim.verdict]}]{claim.verdict}[/]", claim.measured)
    out.print(table)


def _point(request: Request) -> None:
    from kdlgt.cli.tables import console

    console().print(f"look at {request.folder / 'report.html'}", highlight=False, soft_wrap=True)
