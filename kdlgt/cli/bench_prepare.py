"""``kdlgt bench prepare``."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdlgt.experiments.benchmark import Benchmark
    from kdlgt.experiments.measure import Limits

SIZES = (100_000, 1_000_000)


def prepare(
    *,
    encodings: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    graphs: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    max_nodes: int = SIZES[0],
    anchors: int = 32,
    rank: int = 16,
    repeats: int = 1,
    time_limit: float = 300.0,
    memory_limit: float = 16.0,
    json_: Annotated[pathlib.Path | None, Parameter(name="--json")] = None,
) -> None:
    """Time the preparation of SAPD and of spectral encodings on large graphs, beside scipy's own searches and solver.

    Parameters
    ----------
    encodings
        Which of sapd, spectral; default: both.
    graphs
        Which of 6-regular, grid; default: both.
    max_nodes
        Largest graph; sizes are 100,000 and 1,000,000, or this alone when it is smaller.
    anchors
        K of SAPD.
    rank
        Eigenpairs m of the spectral encoding.
    repeats
        Timed runs, after one that is not timed.
    time_limit
        Seconds that one run may take.
    memory_limit
        GiB that one method may take.
    json_
        Write all measurements to this file too.
    """
    from kdlgt.cli.bench_options import GIB, show
    from kdlgt.cli.tables import write_json
    from kdlgt.experiments.benchmark import chosen
    from kdlgt.experiments.benchmark_prepare import ENCODINGS, TOPOLOGIES
    from kdlgt.experiments.measure import Limits, environment

    limits = Limits(memory=int(memory_limit * GIB), seconds=time_limit)
    sizes = tuple(size for size in SIZES if size <= max_nodes) or (max_nodes,)
    results = []
    widths = dict(zip(ENCODINGS, (anchors, rank), strict=True))
    for encoding in chosen("encoding", encodings, ENCODINGS):
        for topology in chosen("graph", graphs, TOPOLOGIES):
            width = widths[encoding]
            results.append(_run(encoding, topology, width, sizes, limits, repeats))
            show(results[-1], None, None)
    write_json(json_, {"benchmarks": [result.to_dict() for result in results], "environment": environment()})


def _run(encoding: str, topology: str, width: int, sizes: Sequence[int], limits: Limits, repeats: int) -> Benchmark:
    """One table, with a line on standard error for each size."""
    from rich.console import Console

    from kdlgt.experiments.benchmark import run_benchmark
    from kdlgt.experiments.benchmark_prepare import ACTION, ENCODINGS, preparation_methods

    progress = Console(stderr=True)
    methods = ENCODINGS[encoding]
    title = f"{encoding}, {topology}, {'K' if encoding == 'sapd' else 'm'} = {width}"
    return run_benchmark(
        title,
        preparation_methods(encoding, topology, width, methods),
        sizes,
        (ACTION,),
        limits=limits,
        repeats=repeats,
        reference=methods[0],
        listener=lambda line: progress.print(f"{title}: {line}", style="dim"),
    )
