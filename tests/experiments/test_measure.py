"""Processes that measure: time, peaks, limits that hold, and errors that come through.

Work is made of partials of library functions: the measuring process cannot import a test module.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kdlgt.experiments.measure import BenchmarkError, Limits, Worker

MIB = 1 << 20
BUILD: functools.partial[dict[str, Any]] = functools.partial(
    dict,
    nap=functools.partial(time.sleep, 0.2),
    long=functools.partial(time.sleep, 60),
    ones=functools.partial(torch.ones, 25 * MIB),
    greedy=functools.partial(torch.ones, 1 << 40),
    wrong=functools.partial(torch.ones, "x"),
)


@pytest.fixture
def worker() -> Iterator[Worker]:
    found = Worker(BUILD, Limits(memory=1 << 30, seconds=5.0, threads=1))
    yield found
    found.close()


def test_time_and_peak(worker: Worker) -> None:
    assert worker.prepare().outcome == "ok"
    nap = worker.run("nap")
    assert nap.outcome == "ok"
    assert 0.2 <= nap.seconds < 2
    ones = worker.run("ones")
    assert 90 * MIB < ones.peak < 130 * MIB
    assert worker.run("nap").peak < 50 * MIB, "a peak is that of its own run"


def test_a_limit_of_memory_ends_no_more_than_the_run(worker: Worker) -> None:
    worker.prepare()
    assert worker.run("greedy").outcome == "out of memory"
    assert worker.run("nap").outcome == "ok"


def test_a_limit_of_time(worker: Worker) -> None:
    worker.prepare()
    start = time.perf_counter()
    assert worker.run("long").outcome == "too slow"
    assert time.perf_counter() - start < 30


def test_any_other_error_comes_through(worker: Worker) -> None:
    worker.prepare()
    with pytest.raises(BenchmarkError, match="TypeError"):
        worker.run("wrong")
