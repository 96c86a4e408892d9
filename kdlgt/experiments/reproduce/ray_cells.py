"""Cells as tasks on a Ray cluster; the folder must be one that every node sees."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from kdlgt.errors import ConfigError
from kdlgt.experiments.reproduce.cells import Cell, CellResult, finished, out_of_memory, train_cell, write_result
from kdlgt.experiments.reproduce.memory import MemoryNeed


def run_cells_on_ray(cells: Sequence[Cell], say: Callable[[CellResult], None]) -> list[CellResult]:
    """Results of all cells, those on disk first of all; each is written as soon as it is known.

    A task whose process was ended, as Ray's memory monitor does, counts as out of memory.

    Raises:
        ConfigError: Ray is not installed.
    """
    ray = _ray()
    found = {cell: finished(cell) for cell in cells}
    missing = [cell for cell, result in found.items() if result is None]
    if missing:
        started = not ray.is_initialized()
        if started:
            ray.init(include_dashboard=False, log_to_driver=False)
        try:
            for cell, result in _train(ray, missing):
                write_result(cell, result)
                say(result)
                found[cell] = result
        finally:
            if started:
                ray.shutdown()
    return [result for result in found.values() if result is not None]


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise ConfigError('--ray needs Ray: pip install "kdlgt[tune]"; without --ray the cells run here') from error
    return ray


def _train(ray: Any, cells: Sequence[Cell]) -> Any:
    """Pairs of cell and result in the order in which they are done."""
    gpus = 1 if ray.cluster_resources().get("GPU", 0) else 0
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(train_cell)
    waiting = {task.remote(cell): cell for cell in cells}
    while waiting:
        (done,), _ = ray.wait(list(waiting))
        cell = waiting.pop(done)
        try:
            yield cell, ray.get(done)
        except (ray.exceptions.OutOfMemoryError, ray.exceptions.WorkerCrashedError):
            yield cell, out_of_memory(cell, MemoryNeed(0, 0))
