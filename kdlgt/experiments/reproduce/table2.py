"""Table 2: every system on every data set, cell by cell."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

import attrs
import numpy as np

from kdlgt.errors import require_at_least
from kdlgt.experiments.reproduce.cells import Cell, CellResult
from kdlgt.experiments.reproduce.charts import finish, panels
from kdlgt.experiments.reproduce.datasets import DataSet, chosen_data_sets
from kdlgt.experiments.reproduce.memory import in_words
from kdlgt.experiments.reproduce.outcome import Entry, Outcome, Picture, Request, Table
from kdlgt.experiments.reproduce.ray_cells import run_cells_on_ray
from kdlgt.experiments.reproduce.table2_claims import Results, Score, judge_all
from kdlgt.experiments.reproduce.workers import run_cells
from kdlgt.systems import system_names, system_path, system_summary

SYSTEMS = (
    "lsat",
    "sat",
    "sapdgt",
    "sapdgt-mean",
    "sapdgt-exact",
    "graphormer",
    "gps",
    "gps-without-gnn",
    "gkat",
    "no-rpe",
    "gcn",
    "gin",
)
"""The order of the table; systems that are not in it come last."""

NOTES = {
    "small": (
        "Small budget: samples of the data sets, small models, a few epochs, nothing tuned; the numbers show that "
        "everything runs, and say little about which system is better."
    ),
    "medium": (
        "Medium budget: MUTAG, COX2_MD, Cora and Citeseer whole, samples of the others; small models, 8 to 40 "
        "epochs, nothing tuned."
    ),
    "full": (
        "Optimiser, learning rate, schedule and batch size are the paper's; widths, depths, dropout and numbers of "
        "epochs are ours, since the paper does not give them, and nothing was tuned for any system."
    ),
}
_NOTES = (
    "A tuned GCN is strong on Cora, Citeseer and PubMed; this one is not tuned.",
    "DGT is not among the systems. LastFM-Asia has no node features here: not comparable with the paper.",
    "Exact attention is fused here and needs less memory than published SAT; figure2 has both.",
)

LOWER_IS_BETTER = ("mae", "rmse")


@attrs.frozen(kw_only=True)
class Settings:
    """Which cells.

    Attributes:
        data: the data sets.
        systems: names of the systems.
        seeds: runs of each, with consecutive seeds.
        memory_limit: bytes that a cell may hold; ``None`` for nine tenths of what is available.
        on_ray: run the cells as tasks on a Ray cluster.
    """

    data: tuple[DataSet, ...]
    systems: tuple[str, ...]
    seeds: int
    memory_limit: int | None = None
    on_ray: bool = False


SEEDS = {"small": 1, "medium": 3, "full": 5}


def chosen_settings(
    request: Request,
    data: Sequence[str] = (),
    systems: Sequence[str] = (),
    seeds: int | None = None,
    memory_limit: int | None = None,
    *,
    on_ray: bool = False,
) -> Settings:
    """Settings from names; everything without any.

    Raises:
        UnknownNameError: a data set that the paper does not have, or a system that kdlgt does not.
        ArgumentError: fewer than one seed.
    """
    for name in systems:
        system_path(name)
    count = SEEDS[request.budget] if seeds is None else seeds
    require_at_least("seeds", count, 1)
    return Settings(
        data=chosen_data_sets(data),
        systems=tuple(systems) or all_systems(),
        seeds=count,
        memory_limit=memory_limit,
        on_ray=on_ray,
    )


def all_systems() -> tuple[str, ...]:
    """Every system that comes with kdlgt, in the table's order."""
    return tuple(sorted(system_names(), key=lambda name: (SYSTEMS.index(name) if name in SYSTEMS else 99, name)))


def run(request: Request, settings: Settings | None = None) -> Outcome:
    """Train the cells that are not there yet, and make the table of all."""
    chosen = chosen_settings(request) if settings is None else settings
    cells = make_cells(request, chosen)
    done = itertools.count(1)

    def say(result: CellResult) -> None:
        request.say(f"table2: {next(done)} of at most {len(cells)}: {describe(result)}")

    results = run_cells_on_ray(cells, say) if chosen.on_ray else run_cells(cells, say, chosen.memory_limit)
    grouped = group(results)
    return Outcome(
        name="table2",
        title="Table 2: systems on the ten data sets",
        summary=(
            "Test metric of the best epoch by the validation metric, mean and deviation over seeds. All systems have "
            "the same width, depth and training. A random split is drawn anew with each seed, the same for all systems."
        ),
        settings=_settings(request, chosen),
        tables=(
            Table.of("table2", "Test metric (MAE: lower is better)", table_rows(grouped, chosen)),
            Table.of(
                "table2_systems", "The systems", [{"system": s, "what": system_summary(s)} for s in chosen.systems]
            ),
            Table.of("table2_cells", "Every cell", [_cell_row(result) for result in results]),
        ),
        pictures=(_picture(grouped, chosen),),
        claims=judge_all(grouped, request.budget),
        notes=(NOTES[request.budget], *_NOTES),
    )


def make_cells(request: Request, settings: Settings) -> list[Cell]:
    """The cells, data set by data set, the first seed of every system first."""
    return [
        Cell(
            system=system,
            data=data.name,
            seed=request.seed + number,
            budget=request.budget,
            folder=request.folder,
            data_root=request.data_root,
        )
        for number in range(settings.seeds)
        for data in settings.data
        for system in settings.systems
    ]


def describe(result: CellResult) -> str:
    """One line on a cell."""
    head = f"{result.data}, {result.system}, seed {result.seed}: "
    if result.test is not None:
        return f"{head}{result.metric} {result.test:.4f} ({result.seconds:.0f} s)"
    if result.status == "out of memory":
        return f"{head}OOM, needs more than {in_words(result.peak)}"
    return f"{head}{result.reason}"


def group(results: Sequence[CellResult]) -> Results:
    """Scores by data set and system."""
    grouped: dict[tuple[str, str], list[CellResult]] = {}
    for result in results:
        grouped.setdefault((result.data, result.system), []).append(result)
    return {key: _score(members) for key, members in grouped.items()}


def _score(results: list[CellResult]) -> Score:
    """Mean and deviation; without any where one seed had none."""
    values = [result.test for result in results if result.test is not None]
    failed = next((result for result in results if result.test is None), None)
    if failed is not None:
        text = f"OOM (> {in_words(failed.peak)})" if failed.status == "out of memory" else "failed"
        return Score(values=(), metric=failed.metric, remark=text)
    lower = results[0].metric in LOWER_IS_BETTER
    return Score(values=tuple(values), metric=results[0].metric, lower_is_better=lower)


def table_rows(results: Results, settings: Settings) -> list[dict[str, Entry]]:
    """One row per system, one column per data set."""
    rows: list[dict[str, Entry]] = []
    for system in settings.systems:
        row: dict[str, Entry] = {"system": system}
        for data in settings.data:
            score = results.get((data.name, system))
            row[f"{data.title} ({_metric(results, data)})"] = "" if score is None else str(score)
        rows.append(row)
    return rows


def _metric(results: Results, data: DataSet) -> str:
    return next((score.metric for (name, _), score in results.items() if name == data.name and score.metric), "?")


def _cell_row(result: CellResult) -> dict[str, Entry]:
    row = attrs.asdict(result)
    row["peak memory (GB)"] = round(row.pop("peak") / 1e9, 3)
    return row


def _settings(request: Request, settings: Settings) -> dict[str, Entry]:
    rows: dict[str, Entry] = {"seeds": settings.seeds, "systems": len(settings.systems)}
    for data in settings.data:
        unit = "graphs" if data.level == "graph" else "nodes"
        rows[data.title] = data.scale(request.budget).of(unit)
    return rows


def _picture(results: Results, settings: Settings) -> Picture:
    columns = min(5, len(settings.data))
    figure, axes = panels(columns, -(-len(settings.data) // columns))
    figure.set_size_inches(3.1 * columns, 3.4 * axes.shape[0])
    place = np.arange(len(settings.systems))[::-1]
    for panel, data in zip(axes.flat, settings.data, strict=False):
        for height, system in zip(place, settings.systems, strict=True):
            score = results.get((data.name, system))
            if score is None or not score.values:
                panel.text(
                    0.5,
                    height,
                    "-" if score is None else score.remark,
                    fontsize=6,
                    va="center",
                    transform=panel.get_yaxis_transform(),
                    ha="center",
                    color="firebrick",
                )
                continue
            panel.plot(score.values, [height] * len(score.values), "o", ms=3, color="#9ecae1")
            panel.plot(statistics.fmean(score.values), height, "D", ms=4, color="#1f4e79")
        panel.set_yticks(place, settings.systems, fontsize=7)
        panel.set_ylim(-0.7, len(settings.systems) - 0.3)
        finish(panel, _metric(results, data), "", data.title)
    for panel in axes.flat[len(settings.data) :]:
        panel.set_visible(False)
    return Picture(name="table2", title="Test metric by system: seeds (dots) and mean (diamonds)", figure=figure)
