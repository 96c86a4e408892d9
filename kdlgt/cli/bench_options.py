"""What the benchmarks of time share on the command line, and how they print."""

from __future__ import annotations

import math
import pathlib
from typing import TYPE_CHECKING

import attrs

from kdlgt.cli.tables import console, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.table import Table

    from kdlgt.experiments.benchmark import Benchmark, Cell
    from kdlgt.experiments.measure import Build

GIB = 1 << 30


@attrs.frozen(kw_only=True)
class Grid:
    """Sizes, repeats and limits.

    Attributes:
        log2n: base-2 logarithm of the one size to measure; overrides the range.
        min_log2n: of the smallest size; sizes grow by a factor of sqrt(2), rounded down.
        max_log2n: of the largest size.
        repeats: timed runs of each cell; the methods take turns.
        memory_limit: GiB that a method may take beyond its inputs; what asks for more is reported as out of memory.
        time_limit: seconds that one run may take; a slower method is not tried at larger sizes.
        threads: threads of torch; 0 leaves its default.
    """

    log2n: float | None = None
    min_log2n: float = 11
    max_log2n: float = 14
    repeats: int = 5
    memory_limit: float = 8.0
    time_limit: float = 120.0
    threads: int = 0


def run_grid(
    title: str, methods: Mapping[str, Callable[[int], Build]], actions: Sequence[str], grid: Grid
) -> Benchmark:
    """Measure over the grid, with a line on standard error for each size."""
    from rich.console import Console

    from kdlgt.experiments.benchmark import doubling_sizes, run_benchmark
    from kdlgt.experiments.measure import Limits

    ends = (grid.min_log2n, grid.max_log2n) if grid.log2n is None else (grid.log2n, grid.log2n)
    progress = Console(stderr=True)
    return run_benchmark(
        title,
        methods,
        doubling_sizes(*ends),
        actions,
        limits=Limits(memory=int(grid.memory_limit * GIB), seconds=grid.time_limit, threads=grid.threads),
        repeats=grid.repeats,
        reference="linear" if "linear" in methods else next(iter(methods)),
        listener=lambda line: progress.print(line, style="dim"),
    )


def show(benchmark: Benchmark, json_: pathlib.Path | None, png: pathlib.Path | None) -> None:
    """Print the tables; write JSON and picture where they were asked for."""
    from kdlgt.experiments.benchmark_picture import draw_benchmark
    from kdlgt.experiments.measure import environment

    out = console()
    out.print(benchmark.title, markup=False, highlight=False, soft_wrap=True)
    for action in benchmark.actions:
        out.print(_table(benchmark, f"{action}: median time (ratio to {benchmark.reference})", action, _time))
        out.print(_table(benchmark, f"{action}: peak memory beyond the inputs", action, _peak))
    write_json(json_, {**benchmark.to_dict(), "environment": environment()})
    if png is not None:
        png.parent.mkdir(parents=True, exist_ok=True)
        draw_benchmark(benchmark).savefig(png, format="png", dpi=150)


def _table(benchmark: Benchmark, title: str, action: str, entry: Callable[[Benchmark, Cell], str]) -> Table:
    from rich.table import Table

    table = Table("nodes", *benchmark.methods, title=title, title_justify="left")
    for nodes in benchmark.sizes:
        cells = (benchmark.cell(method, nodes, action) for method in benchmark.methods)
        table.add_row(
            f"{nodes:,}", *(entry(benchmark, cell) if cell.outcome == "ok" else cell.outcome for cell in cells)
        )
    return table


def _time(benchmark: Benchmark, cell: Cell) -> str:
    time = f"{cell.median * 1e3:.1f} ms" if cell.median < 1 else f"{cell.median:.2f} s"
    ratio = benchmark.ratio(cell.method, cell.nodes, cell.action)
    return time if cell.method == benchmark.reference or math.isnan(ratio) else f"{time} ({ratio:.2f})"


def _peak(benchmark: Benchmark, cell: Cell) -> str:
    return _memory(cell.peak)


def _memory(peak: int) -> str:
    return f"{peak / GIB:.2f} GiB" if peak >= GIB / 10 else f"{peak / (1 << 20):.0f} MiB"
