"""One cell of Table 2: a system on a data set with a seed, trained in a process that may run out of memory."""

from __future__ import annotations

import hashlib
import json
import pathlib
import time
from typing import Any, Literal

import attrs

from kdlgt.errors import KdlgtError
from kdlgt.experiments.measure import peak_memory, reset_peak
from kdlgt.experiments.reproduce.datasets import data_set
from kdlgt.experiments.reproduce.memory import MemoryNeed, asked_bytes
from kdlgt.experiments.reproduce.outcome import Budget
from kdlgt.experiments.reproduce.training import run_tree, train_tree
from kdlgt.registry import load_plugins
from kdlgt.train import RunFolder, RunResult

STOPPED = "stopped by"
"""How training's error begins after a signal."""

Status = Literal["trained", "out of memory", "failed"]


@attrs.frozen(kw_only=True)
class Cell:
    """A system on a data set with a seed.

    Attributes:
        system: name of the system's config.
        data: name of the data set.
        seed: the run's seed.
        budget: how much of it.
        folder: the folder of the table.
        data_root: folder of data sets.
    """

    system: str
    data: str
    seed: int
    budget: Budget
    folder: pathlib.Path
    data_root: pathlib.Path | None = None

    @property
    def name(self) -> str:
        """Name of its file and its run folder."""
        return f"{self.data}--{self.system}--seed-{self.seed}--{self.digest}"

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits of its config, so that changed settings are another cell."""
        return hashlib.sha256(json.dumps(self.tree(), sort_keys=True).encode()).hexdigest()[:8]

    @property
    def file(self) -> pathlib.Path:
        """Where its result is."""
        return self.folder / "cells" / f"{self.name}.json"

    @property
    def run_dir(self) -> pathlib.Path:
        """Its run folder."""
        return self.folder / "runs" / self.name

    def tree(self) -> dict[str, Any]:
        """The tree of its config."""
        return run_tree(self.system, data_set(self.data), self.budget, self.seed)


@attrs.frozen(kw_only=True)
class CellResult:
    """The outcome of a cell.

    Attributes:
        system, data, seed: which cell.
        status: trained, out of memory, or failed.
        metric: the data set's metric.
        test, val: its value on the test and validation part.
        seconds: time of the cell, preparation included.
        parameters: number of parameters.
        peak: bytes held at the peak; for a cell out of memory the least that it needs.
        collapsed: whether the random features of a head had collapsed after training (the health report).
        reason: why it failed.
    """

    system: str
    data: str
    seed: int
    status: Status
    metric: str = ""
    test: float | None = None
    val: float | None = None
    seconds: float = 0.0
    parameters: int = 0
    peak: int = 0
    collapsed: bool = False
    reason: str = ""


def finished(cell: Cell) -> CellResult | None:
    """The result on disk; ``None`` without one, and for a cell that failed, which is tried again."""
    try:
        result = CellResult(**json.loads(cell.file.read_text(encoding="utf-8")))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None
    return None if result.status == "failed" else result


def write_result(cell: Cell, result: CellResult) -> None:
    """Write the cell's file atomically."""
    cell.file.parent.mkdir(parents=True, exist_ok=True)
    RunFolder(cell.file.parent).write_json(cell.file, attrs.asdict(result))


def train_cell(cell: Cell) -> CellResult:
    """Train the cell in this process, going on from its run folder where there is one.

    A refusal and an exhausted memory are results; a signal to stop is not.
    """
    start = time.perf_counter()
    reset_peak()
    try:
        result = _train(cell)
    except (KdlgtError, MemoryError, RuntimeError) as error:
        if str(error).startswith(STOPPED):
            raise
        found = _explained(cell, error)
        return attrs.evolve(found, seconds=round(time.perf_counter() - start, 2))
    return _result(
        cell,
        "trained",
        metric=result.metric,
        test=result.test[result.metric],
        val=result.val[result.metric],
        parameters=result.parameters,
        peak=peak_memory(),
        collapsed=_collapsed(cell),
        seconds=round(time.perf_counter() - start, 2),
    )


def _train(cell: Cell) -> RunResult:
    return train_tree(cell.tree(), data_set(cell.data).scale(cell.budget), cell.run_dir, cell.data_root, load_plugins())


def _collapsed(cell: Cell) -> bool:
    report = RunFolder(cell.run_dir).health
    return report.is_file() and bool(json.loads(report.read_text(encoding="utf-8"))["collapsed"])


def _result(cell: Cell, status: Status, **values: Any) -> CellResult:
    return CellResult(system=cell.system, data=cell.data, seed=cell.seed, status=status, **values)


def _explained(cell: Cell, error: BaseException) -> CellResult:
    asked = asked_bytes(error)
    if asked is not None:
        return out_of_memory(cell, MemoryNeed(peak_memory(), asked))
    if not isinstance(error, KdlgtError):
        raise error
    return _result(cell, "failed", reason=str(error))


def out_of_memory(cell: Cell, need: MemoryNeed) -> CellResult:
    """The result of a cell that ran out of memory."""
    return _result(cell, "out of memory", peak=need.at_least)
