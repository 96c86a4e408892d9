"""``kdlgt bench error``."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from kdlgt.experiments.benchmark_error import ErrorCell, ErrorTable


def error(
    *targets: pathlib.Path,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative=())] = (),
    counts: Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative=())] = (16, 32, 64, 128, 256, 512),
    rows: int = 64,
    seeds: int = 4,
    data_root: pathlib.Path | None = None,
    json_: Annotated[pathlib.Path | None, Parameter(name="--json")] = None,
    png: pathlib.Path | None = None,
) -> None:
    """Measure every feature map on the logits of trained models: total variation to the softmax, with time beside it.

    Parameters
    ----------
    targets
        Folders that kdlgt train wrote, or configs, which are trained first.
    set_
        Override one key of every config.
    counts
        Numbers of features r.
    rows
        Nodes to sample in each layer.
    seeds
        Draws of the projections.
    data_root
        Folder of data sets; without it $KDLGT_DATA, else a download.
    json_
        Write the tables to this file too.
    png
        Draw error against the number of features into this file.
    """
    from rich.console import Console

    from kdlgt.cli.tables import console, write_json
    from kdlgt.experiments.benchmark_error import measure_errors
    from kdlgt.experiments.error_picture import draw_errors
    from kdlgt.experiments.health import open_trained
    from kdlgt.model import layer_inputs
    from kdlgt.registry import load_plugins

    progress = Console(stderr=True)
    registry = load_plugins()
    tables = []
    for target in targets:
        progress.print(f"{target}", style="dim")
        opened = open_trained(target, overrides=set_, data_root=data_root)
        layers = [inputs for inputs in layer_inputs(opened.model, opened.batch) if inputs is not None]
        found = measure_errors(
            opened.name,
            layers,
            registry,
            counts=counts,
            rows=rows,
            seeds=seeds,
            listener=lambda line: progress.print(line, style="dim"),
        )
        console().print(error_table(found))
        console().print(time_table(found))
        tables.append(found)
    write_json(json_, {"models": [found.to_dict() for found in tables]})
    if png is not None:
        png.parent.mkdir(parents=True, exist_ok=True)
        draw_errors(tables).savefig(png, format="png", dpi=150)


def error_table(found: ErrorTable) -> Table:
    """One row per map: total variation and its ratio to independent FAVOR+ at each r."""
    title = f"{found.name}: total variation to the softmax (ratio to independent FAVOR+); best of each r in bold"
    return _table(found, title, lambda cell: f"{cell.total_variation:.3f} ({cell.ratio:.2f})")


def time_table(found: ErrorTable) -> Table:
    """One row per map: time of the linear attention of one layer, forward."""
    return _table(found, "time of one layer, ms", lambda cell: f"{cell.seconds * 1e3:.1f}")


def _table(found: ErrorTable, title: str, entry: Callable[[ErrorCell], str]) -> Table:
    from rich.table import Table

    table = Table("feature map", *(f"r = {count}" for count in found.counts), title=title, title_justify="left")
    cells = {(cell.method, cell.features): cell for cell in found.cells}
    for method in dict.fromkeys(cell.method for cell in found.cells):
        row = []
        for count in found.counts:
            cell = cells.get((method, count))
            text = "" if cell is None else entry(cell)
            row.append(f"[bold]{text}[/bold]" if cell is not None and cell == found.best(count) else text)
        table.add_row(method, *row)
    return table
