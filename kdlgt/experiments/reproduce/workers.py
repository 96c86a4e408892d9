"""Cells in a process of their own: one that the system kills for its memory takes no other cell with it."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

import torch

from kdlgt.experiments.reproduce.cells import Cell, CellResult, finished, out_of_memory, train_cell, write_result
from kdlgt.experiments.reproduce.memory import MemoryNeed, available_bytes, limit_memory, status_bytes

_SHARE = 0.9
_POLL_SECONDS = 0.5

Say = Callable[[CellResult], None]


def run_cells(cells: Iterable[Cell], say: Say, memory_limit: int | None = None) -> list[CellResult]:
    """Results of all cells, those on disk first of all; each is written as soon as it is known.

    Args:
        cells: the cells.
        say: called with every new result.
        memory_limit: bytes that a cell may hold; default: nine tenths of what is available. Not on a GPU, whose own
            memory is the limit.
    """
    found: list[CellResult] = []
    with _Worker(memory_limit) as worker:
        for cell in cells:
            result = finished(cell)
            if result is None:
                result = worker.train(cell)
                write_result(cell, result)
                say(result)
            found.append(result)
    return found


class _Worker:
    """A process that trains cells one after another, started when it is needed and again after it was killed."""

    def __init__(self, memory_limit: int | None) -> None:
        self.limit = memory_limit
        self.pool: ProcessPoolExecutor | None = None
        self.pid = 0

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def train(self, cell: Cell) -> CellResult:
        """Train a cell; a process that died while it did counts as out of memory."""
        future = self._open().submit(train_cell, cell)
        held = 0
        try:
            for held in _peaks(self.pid, future):  # noqa: B007  the last one counts
                pass
            return future.result()
        except BrokenProcessPool:
            self._close()
            return out_of_memory(cell, MemoryNeed(held, 0))

    def _open(self) -> ProcessPoolExecutor:
        if self.pool is None:
            # A forked child would inherit torch's threads in whatever state they are.
            context = multiprocessing.get_context("spawn")
            self.pool = ProcessPoolExecutor(1, context, initializer=_begin, initargs=(self.limit,))
            self.pid = self.pool.submit(os.getpid).result()
        return self.pool

    def _close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)
            self.pool = None


def _begin(memory_limit: int | None) -> None:
    """Set the memory limit of a new worker, and let it end with its parent, however that ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    available = available_bytes()
    limit = memory_limit or (None if available is None else int(_SHARE * available))
    if limit is not None and not torch.cuda.is_available():
        limit_memory(limit)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _peaks(pid: int, future: Future[CellResult]) -> Iterator[int]:
    """Peak memory of a process in bytes, again and again, until the future is done."""
    peak = 0
    while not wait([future], timeout=_POLL_SECONDS).done:
        peak = max(peak, _peak_of(pid))
        yield peak


def _peak_of(pid: int) -> int:
    """0 where the system does not say, and after the end."""
    try:
        return status_bytes(pathlib.Path(f"/proc/{pid}/status").read_text(), "VmHWM")
    except OSError:
        return 0
