"""A run killed at random moments ends as an uninterrupted one."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess

import pytest
import torch

from kdlgt.config import Config
from kdlgt.train import RunFolder, train_run
from kdlgt.train.checkpoint import load_checkpoint

MakeConfig = Callable[..., Config]
HEAVY = ["kdlgt.train", "lightning.fabric", "torchmetrics", "torch.utils.tensorboard", "matplotlib.figure"]


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Processes that have the heavy imports behind them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(HEAVY)
    return context


def start(context: ForkServerContext, config: Config, folder: pathlib.Path) -> BaseProcess:
    process = context.Process(target=train_run, args=(config, folder), kwargs={"resume": True})
    process.start()
    return process


def wait_for_epoch(process: BaseProcess, folder: RunFolder, epoch: int) -> None:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.is_alive():
        if len(folder.read_metrics()[1]) >= epoch:
            return
        time.sleep(0.01)
    assert not process.is_alive(), "no epoch was completed in 200 s"


def rows(folder: RunFolder) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in folder.read_metrics()[1]]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_resumes_to_the_same_end(
    tmp_path: pathlib.Path, graphs_config: MakeConfig, processes: ForkServerContext, number: signal.Signals
) -> None:
    moments = [random.SystemRandom().uniform(0.0, 0.2) for _ in range(3)]
    config = graphs_config(data={"batch_size": 2}, epochs=12)
    whole, parts = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "parts")
    reference = start(processes, config, whole.path)
    for epoch, moment in zip((1, 4, 8), moments, strict=True):
        process = start(processes, config, parts.path)
        wait_for_epoch(process, parts, epoch)
        time.sleep(moment)
        assert process.pid is not None
        os.kill(process.pid, number)
        process.join(60)
        assert process.exitcode in (-number, 0, 1)
    for process in (reference, start(processes, config, parts.path)):
        process.join(200)
        assert process.exitcode == 0
    a, b = load_checkpoint(whole.last), load_checkpoint(parts.last)
    assert a.epoch == b.epoch == 12
    assert all(torch.equal(tensor, b.model[name]) for name, tensor in a.model.items()), f"killed at {moments}"
    assert rows(whole) == rows(parts)
    assert whole.predictions.read_bytes() == parts.predictions.read_bytes()
    assert whole.read_result()["test"] == parts.read_result()["test"]
