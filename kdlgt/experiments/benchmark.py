"""Methods against sizes: interleaved repeats, medians, peaks, and where each method stops."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from kdlgt.errors import require_at_least, unknown_name
from kdlgt.experiments.measure import Build, Limits, Outcome, Reading, Worker

Listener = Callable[[str], None]
"""Told what is being measured."""


def chosen(what: str, names: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """The names, or all known ones without any; :class:`UnknownNameError` for another name."""
    available = tuple(known)
    for name in names:
        if name not in available:
            raise unknown_name(what, name, available)
    return tuple(names) or available


@attrs.frozen(kw_only=True)
class Cell:
    """One method at one size in one action.

    Attributes:
        method, nodes, action: what was measured.
        outcome: the limit that it broke, or ``ok``.
        seconds: of each repeat.
        peak: bytes above the inputs.
    """

    method: str
    nodes: int
    action: str
    outcome: Outcome
    seconds: tuple[float, ...] = ()
    peak: int = 0

    @property
    def median(self) -> float:
        """Median duration; NaN where a limit was broken."""
        return statistics.median(self.seconds) if self.outcome == "ok" else math.nan


@attrs.frozen(kw_only=True)
class Benchmark:
    """All cells of a run.

    Attributes:
        title: what was measured, with its settings.
        cells: in order of size, method and action.
        reference: the method that ratios are taken to.
    """

    title: str
    cells: tuple[Cell, ...]
    reference: str

    @property
    def methods(self) -> tuple[str, ...]:
        """In the order in which they were given."""
        return tuple(dict.fromkeys(cell.method for cell in self.cells))

    @property
    def actions(self) -> tuple[str, ...]:
        """In the order in which they were given."""
        return tuple(dict.fromkeys(cell.action for cell in self.cells))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of nodes, ascending."""
        return tuple(dict.fromkeys(cell.nodes for cell in self.cells))

    def cell(self, method: str, nodes: int, action: str) -> Cell:
        """The cell of a method, a size and an action."""
        return next(c for c in self.cells if (c.method, c.nodes, c.action) == (method, nodes, action))

    def ratio(self, method: str, nodes: int, action: str) -> float:
        """Median time over that of the reference, in the same repeats; NaN where one of them stopped."""
        ours, reference = self.cell(method, nodes, action), self.cell(self.reference, nodes, action)
        return ours.median / reference.median

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "title": self.title,
            "reference": self.reference,
            "cells": [
                {
                    **attrs.asdict(cell),
                    "median": None if math.isnan(cell.median) else cell.median,
                    "ratio": _or_none(self.ratio(cell.method, cell.nodes, cell.action)),
                }
                for cell in self.cells
            ],
        }


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def doubling_sizes(smallest: float, largest: float, steps_per_doubling: int = 2) -> tuple[int, ...]:
    """``2^smallest`` to ``2^largest`` by factors of ``2^(1/steps)``, rounded down, as the paper's Figure 2."""
    require_at_least("steps_per_doubling", steps_per_doubling, 1)
    count = math.floor((largest - smallest) * steps_per_doubling + 1e-9) + 1
    return tuple(math.floor(2 ** (smallest + step / steps_per_doubling) + 1e-9) for step in range(max(count, 1)))


def run_benchmark(
    title: str,
    methods: Mapping[str, Callable[[int], Build]],
    sizes: Sequence[int],
    actions: Sequence[str],
    *,
    limits: Limits,
    repeats: int = 5,
    reference: str = "linear",
    listener: Listener | None = None,
) -> Benchmark:
    """Measure every method at every size; a method that breaks a limit is not tried at larger sizes.

    Args:
        title: what is measured.
        methods: by name, what builds the work for a number of nodes.
        sizes: numbers of nodes, ascending.
        actions: what each method can run.
        limits: of each process.
        repeats: timed runs, after one that is not timed.
        reference: the method that ratios are taken to.
        listener: told what is being measured.

    Raises:
        BenchmarkError: the measured code failed. ArgumentError: ``repeats`` below 1.
    """
    require_at_least("repeats", repeats, 1)
    cells: list[Cell] = []
    stopped: dict[tuple[str, str], Outcome] = {}
    for nodes in sizes:
        if listener is not None:
            listener(f"{nodes} nodes")
        found = _one_size(methods, nodes, actions, limits, repeats, stopped)
        stopped |= {(cell.method, cell.action): cell.outcome for cell in found if cell.outcome != "ok"}
        cells += found
    return Benchmark(title=title, cells=tuple(cells), reference=reference)


def _one_size(
    methods: Mapping[str, Callable[[int], Build]],
    nodes: int,
    actions: Sequence[str],
    limits: Limits,
    repeats: int,
    stopped: Mapping[tuple[str, str], Outcome],
) -> list[Cell]:
    """The cells of one size: every method warm, then all of them in turn."""
    keys = [(method, action) for method in methods for action in actions]
    readings = {key: [Reading(outcome=stopped.get(key, "ok"))] for key in keys}
    pool = _Pool(nodes, methods, limits)
    try:
        for _ in range(repeats + 1):
            for key in keys:
                if readings[key][-1].outcome == "ok":
                    readings[key].append(pool.run(*key))
    finally:
        pool.close()
    return [_cell(method, nodes, action, readings[method, action]) for method, action in keys]


class _Pool:
    """The processes of one size, one per method; one that broke a limit is replaced when it is asked again."""

    def __init__(self, nodes: int, methods: Mapping[str, Callable[[int], Build]], limits: Limits) -> None:
        self._nodes, self._methods, self._limits = nodes, methods, limits
        self._workers: dict[str, Worker] = {}

    def run(self, method: str, action: str) -> Reading:
        if method not in self._workers:
            self._workers[method] = Worker(self._methods[method](self._nodes), self._limits)
            prepared = self._workers[method].prepare()
            if prepared.outcome != "ok":
                return self._broken(method, prepared)
        reading = self._workers[method].run(action)
        return reading if reading.outcome == "ok" else self._broken(method, reading)

    def _broken(self, method: str, reading: Reading) -> Reading:
        self._workers.pop(method).close()
        return reading

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()


def _cell(method: str, nodes: int, action: str, readings: Sequence[Reading]) -> Cell:
    outcome = readings[-1].outcome
    if outcome != "ok":
        return Cell(method=method, nodes=nodes, action=action, outcome=outcome)
    # The first entry says that nothing was in the way, the second is the run that warmed up.
    seconds = tuple(reading.seconds for reading in readings[2:])
    peak = max(reading.peak for reading in readings)
    return Cell(method=method, nodes=nodes, action=action, outcome=outcome, seconds=seconds, peak=peak)
