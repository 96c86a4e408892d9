"""Memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kdlgt.errors import TrainingError
from kdlgt.experiments.reproduce import memory


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes. Error code 12", 4096),
        ("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0", 1.5 * 2**30),
        ("Unable to allocate 2.00 MiB for an array with shape (1024, 256)", 2 * 2**20),
    ],
)
def test_what_an_allocator_says(text: str, asked: float) -> None:
    assert memory.asked_bytes(RuntimeError(text)) == asked


def test_the_cause_counts_and_other_errors_do_not() -> None:
    wrapped = TrainingError("out of memory in epoch 1")
    wrapped.__cause__ = RuntimeError("you tried to allocate 77 bytes")
    assert memory.asked_bytes(wrapped) == 77
    assert memory.asked_bytes(MemoryError()) == 0
    assert memory.asked_bytes(RuntimeError("shapes do not fit")) is None


def test_need_in_words() -> None:
    assert memory.in_words(memory.MemoryNeed(held=10**9, asked=5 * 10**8).at_least) == "1.50 GB"


BEYOND = """
import torch
from kdlgt.experiments.reproduce import memory
memory.limit_memory(50_000_000)
try:
    torch.ones(100_000_000)
except RuntimeError as error:
    print(memory.asked_bytes(error))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of private data are Linux's")
def test_an_allocation_beyond_the_limit_fails() -> None:
    done = subprocess.run([sys.executable, "-c", BEYOND], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "400000000"
