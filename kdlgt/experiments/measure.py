"""Time and peak memory of one piece of work, in a process of its own with bounded memory.

Each (method, size) has its own process: peaks are its own, and an allocation beyond the limit ends that process alone.
Processes live through all repeats, so that the methods of one size take turns while the load of the machine drifts.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Literal

import attrs
import torch

from kdlgt.errors import KdlgtError

Actions = Mapping[str, Callable[[], object]]
"""What can be run, by name; a result is dropped."""

Build = Callable[[], Actions]
"""Makes inputs and model inside the process; it must be picklable."""

Outcome = Literal["ok", "out of memory", "too slow"]

_PRELOADED = ["torch", "torch_geometric.nn", "kdlgt.build", "kdlgt.data", "kdlgt.experiments.measure"]


@attrs.frozen(kw_only=True)
class Limits:
    """Bounds of each process.

    Attributes:
        memory: bytes beyond what the process takes before its work.
        seconds: of one run.
        threads: threads of torch; 0 leaves its default.
    """

    memory: int
    seconds: float = 300.0
    threads: int = 0


@attrs.frozen(kw_only=True)
class Reading:
    """One run.

    Attributes:
        outcome: whether it ended within the limits.
        seconds: its duration.
        peak: bytes above what the process held before its first run.
    """

    outcome: Outcome
    seconds: float = float("nan")
    peak: int = 0


class BenchmarkError(KdlgtError, RuntimeError):
    """The measured code itself failed."""


class Worker:
    """A process that builds its work once and runs it on demand.

    Args:
        build: makes the actions.
        limits: bounds of the process.
    """

    def __init__(self, build: Build, limits: Limits) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)
        self._limits = limits
        self._connection, theirs = context.Pipe()
        self._process: ForkServerProcess = context.Process(target=_serve, args=(theirs, build, limits), daemon=True)
        self._process.start()
        theirs.close()

    def prepare(self) -> Reading:
        """Build inputs and model, however long that takes.

        Raises:
            BenchmarkError: the code failed for another reason than its limits.
        """
        return self._ask("", None)

    def run(self, action: str) -> Reading:
        """Run an action once, after :meth:`prepare`.

        Raises:
            BenchmarkError: the code failed for another reason than its limits.
        """
        return self._ask(action, self._limits.seconds)

    def _ask(self, action: str, seconds: float | None) -> Reading:
        with contextlib.suppress(BrokenPipeError):
            self._connection.send(action)
        try:
            if not self._connection.poll(seconds):
                return Reading(outcome="too slow")
            answer = self._connection.recv()
        except (EOFError, ConnectionResetError):
            # Killed from outside: by the kernel, which was out of memory before the limit was reached.
            return Reading(outcome="out of memory")
        if isinstance(answer, str):
            raise BenchmarkError(answer)
        reading: Reading = answer
        return reading

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()


def _serve(connection: Connection, build: Build, limits: Limits) -> None:
    """Answer each name of an action with a :class:`Reading`, or with the text of an error; no name builds."""
    if limits.threads:
        torch.set_num_threads(limits.threads)
    _limit_memory(limits.memory)
    actions: Actions = {}
    baseline = 0
    while True:
        try:
            name = connection.recv()
        except (EOFError, ConnectionResetError):  # the parent has ended
            return
        answer: Reading | str
        try:
            if name:
                answer = measure(actions[name], baseline)
            else:
                _load_libraries()
                actions = build()
                baseline, answer = resident_memory(), Reading(outcome="ok")
        except (MemoryError, RuntimeError) as error:
            answer = (
                Reading(outcome="out of memory") if _is_out_of_memory(error) else f"{type(error).__name__}: {error}"
            )
        except Exception as error:  # noqa: BLE001 (it is raised again in the parent)
            answer = f"{type(error).__name__}: {error}"
        connection.send(answer)


def _load_libraries() -> None:
    """Run a product and its gradient, so that pages of the libraries do not count as memory of the first method."""
    side = torch.ones(8, 8, requires_grad=True)
    (side @ side).exp().sum().backward()


def measure(action: Callable[[], object], baseline: int) -> Reading:
    """Run once: seconds, and peak memory above the baseline."""
    gc.collect()
    _trim()
    reset_peak()
    _synchronise()
    start = time.perf_counter()
    action()
    _synchronise()
    seconds = time.perf_counter() - start
    return Reading(outcome="ok", seconds=seconds, peak=max(0, peak_memory() - baseline))


def _synchronise() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _on_gpu() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_initialized()


def resident_memory() -> int:
    """Bytes that this process holds now: on the GPU when it uses one, else resident."""
    if _on_gpu():
        return torch.cuda.memory_allocated()
    return _status("VmRSS") or _highest_ever()


def peak_memory() -> int:
    """The largest value of :func:`resident_memory` since the last reset; since the start where there is no reset."""
    if _on_gpu():
        return torch.cuda.max_memory_allocated()
    return _status("VmHWM") or _highest_ever()


def reset_peak() -> None:
    """Measure :func:`peak_memory` from here on, where the system can."""
    if _on_gpu():
        torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _status(field: str) -> int:
    """A size of this process in Linux's ``/proc``; 0 where there is none."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0)


def _highest_ever() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _trim() -> None:
    """Give freed memory back, so that it does not hide in the next peak."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _limit_memory(extra: int) -> None:
    """Bound the address space; on a GPU the allocator's share of its memory."""
    if torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, extra / total))
        return
    limit = _status("VmSize") + extra
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _is_out_of_memory(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
        sign in text for sign in ("allocate memory", "out of memory", "bad_alloc", "bad allocation")
    )


def environment() -> dict[str, Any]:
    """Where the measurement was made."""
    from kdlgt.train.run_folder import environment as describe

    return {**describe(0), "threads": torch.get_num_threads()}
