from __future__ import annotations

import pathlib
import signal
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import torch

from kdlgt.config import Config
from kdlgt.errors import CheckpointError, TrainingError
from kdlgt.registry import Registry
from kdlgt.train import RunFolder, Session, train_run
from kdlgt.train.checkpoint import Checkpoint, load_checkpoint
from kdlgt.train.fabric import make_fabric
from kdlgt.train.loop import Loop
from kdlgt.train.signals import StopRequest

MakeConfig = Callable[..., Config]


class StopAfter(StopRequest):
    """A signal after so many optimiser steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    @property
    def signal(self) -> signal.Signals | None:  # type: ignore[override]
        self.steps -= 1
        return signal.SIGTERM if self.steps < 0 else None


def a_loop(config: Config, folder: pathlib.Path, registry: Registry, stop: StopRequest | None = None) -> Loop:
    folder.mkdir(exist_ok=True)
    session = Session.open(config, registry=registry)
    return session.loop(RunFolder(folder), make_fabric(config.train), stop)


def same(a: Checkpoint, b: Checkpoint) -> bool:
    assert a.model.keys() == b.model.keys()
    if (a.epoch, a.step, a.progress) != (b.epoch, b.step, b.progress):
        return False
    moments = [
        torch.equal(value, b.optimizer["state"][number][name])
        for number, state in a.optimizer["state"].items()
        for name, value in state.items()
    ]
    return all(torch.equal(tensor, b.model[name]) for name, tensor in a.model.items()) and all(moments)


@pytest.mark.parametrize("steps", [1, 3, 4, 7, 11])
def test_a_run_stopped_at_any_step_resumes_to_the_same_parameters(
    tmp_path: pathlib.Path, graphs_config: MakeConfig, registry: Registry, steps: int
) -> None:
    config = graphs_config(model={"attention": {"redraw_every": 4}}, accumulate=2, clip=1.0, warmup=1)
    whole = a_loop(config, tmp_path / "whole", registry)
    whole.run()
    stopped = a_loop(config, tmp_path / "parts", registry, StopAfter(steps))
    with pytest.raises(TrainingError, match=r"stopped by SIGTERM .*last\.ckpt was written. Go on with --resume"):
        stopped.run()
    resumed = a_loop(config, tmp_path / "parts", registry)
    resumed.resume()
    per_epoch = resumed.batches.steps
    assert resumed.progress.epoch * per_epoch + resumed.progress.step == steps + 1
    resumed.run()
    assert same(load_checkpoint(whole.folder.last), load_checkpoint(resumed.folder.last))
    assert load_checkpoint(whole.folder.best).epoch == load_checkpoint(resumed.folder.best).epoch


def test_two_runs_are_equal_and_the_seed_matters(
    tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry
) -> None:
    runs = []
    for number, seed in enumerate((3, 3, 4)):
        loop = a_loop(karate_config(seed=seed), tmp_path / str(number), registry)
        loop.run()
        runs.append(load_checkpoint(loop.folder.last))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_the_global_random_state_is_left_alone(
    tmp_path: pathlib.Path, graphs_config: MakeConfig, registry: Registry
) -> None:
    before = torch.get_rng_state()
    train_run(graphs_config(), tmp_path / "run", registry=registry)
    assert torch.equal(before, torch.get_rng_state())


def test_accumulated_batches_step_like_one_large_batch(
    tmp_path: pathlib.Path, graphs_config: MakeConfig, registry: Registry
) -> None:
    ends = []
    for name, size, accumulate in (("large", 14, 1), ("small", 7, 2)):
        data = {"batch_size": size, "ratios": [0.7, 0.15, 0.15]}
        config = graphs_config({"dropout": 0.0}, data, accumulate=accumulate, precision="64", eps=1e-3)
        loop = a_loop(config, tmp_path / name, registry)
        loop.run()
        ends.append(load_checkpoint(loop.folder.last).model)
    assert all(torch.allclose(tensor, ends[1][name], atol=1e-9) for name, tensor in ends[0].items())


def test_hooks_run_once_per_optimiser_step_outside_forward(
    tmp_path: pathlib.Path, graphs_config: MakeConfig, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = graphs_config(epochs=2, accumulate=2)
    session = Session.open(config, registry=registry)
    events: list[str] = []
    layer = session.model.layers[0]
    monkeypatch.setattr(layer, "after_optimizer_step", lambda: events.append("commit"), raising=False)
    layer.register_forward_hook(lambda *_: events.append("forward") if layer.training else None)
    (tmp_path / "run").mkdir()
    loop = session.loop(RunFolder(tmp_path / "run"), make_fabric(config.train))
    loop.run()
    assert events.count("commit") == 2 * loop.batches.steps
    assert events[:6] == ["forward", "forward", "commit"] * 2


def test_projections_are_redrawn_only_on_request(
    tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry
) -> None:
    def projection(every: int) -> list[torch.Tensor]:
        loop = a_loop(karate_config({"attention": {"redraw_every": every}}), tmp_path / str(every), registry)
        before = loop.model.attention_blocks[0].features.state_dict()["projection"].clone()
        loop.run()
        return [before, loop.model.attention_blocks[0].features.state_dict()["projection"]]

    kept, redrawn = projection(0), projection(2)
    assert torch.equal(*kept)
    assert not torch.equal(*redrawn)


def test_patience_ends_a_run(tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry) -> None:
    config = karate_config(epochs=50, patience=3, lr=1e-12)
    loop = a_loop(config, tmp_path / "run", registry)
    loop.run()
    assert loop.progress.epoch - loop.progress.best_epoch == 3
    assert loop.progress.epoch < 50


def test_training_learns(tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry) -> None:
    loop = a_loop(karate_config(epochs=40), tmp_path / "run", registry)
    loop.run()
    losses = [row["train_loss"] for row in loop.folder.read_metrics()[1]]
    assert losses[-1] < losses[0] / 3


def test_a_loss_that_is_not_finite_names_step_layer_and_checkpoint(
    tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry
) -> None:
    loop = a_loop(karate_config(), tmp_path / "run", registry)

    def poison(record: Any) -> None:
        if record.epoch == 2:
            loop.model.norm.register_forward_hook(lambda module, given, output: output * torch.nan)

    loop.listeners.append(poison)
    with pytest.raises(
        TrainingError, match=r"loss is nan in epoch 3, step 1 of 1: .*layer 'norm'.*last\.ckpt.*train\.lr"
    ):
        loop.run()
    assert load_checkpoint(loop.folder.last).epoch == 2


def test_a_parameter_that_is_not_finite_is_named(
    tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry
) -> None:
    loop = a_loop(karate_config(), tmp_path / "run", registry)
    with torch.no_grad():
        next(iter(loop.model.norm.parameters()))[0] = torch.inf
    with pytest.raises(TrainingError, match=r"parameter 'norm\.weight' holds NaN or inf"):
        loop.run()


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 4 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:119] . DefaultCPUAllocator: can't allocate memory: you tried"),
        MemoryError(),
    ],
)
def test_out_of_memory_says_what_to_lower(
    tmp_path: pathlib.Path, graphs_config: MakeConfig, registry: Registry, error: BaseException
) -> None:
    loop = a_loop(graphs_config({"attention": "exact"}), tmp_path / "run", registry)

    def fail(*_: object) -> None:
        raise error

    loop.model.norm.register_forward_hook(fail)
    expected = r'epoch 1, step 1 of 7.*attention\.mode = "linear".*data\.batch_size \(now 4\).*num_features \(now 8\)'
    with pytest.raises(TrainingError, match=expected):
        loop.run()


def test_other_errors_pass_through(tmp_path: pathlib.Path, graphs_config: MakeConfig, registry: Registry) -> None:
    loop = a_loop(graphs_config(), tmp_path / "run", registry)

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    loop.model.norm.register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="a bug"):
        loop.run()


@pytest.mark.parametrize("damage", ["truncated", "foreign", "other config"])
def test_resume_refuses_a_checkpoint_it_cannot_use_and_overwrites_nothing(
    tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry, damage: str
) -> None:
    config = karate_config(epochs=2)
    train_run(config, tmp_path / "run", registry=registry)
    last = tmp_path / "run" / "last.ckpt"
    if damage == "truncated":
        last.write_bytes(last.read_bytes()[:-500])
    elif damage == "foreign":
        torch.save({"weights": torch.zeros(3)}, last)
    else:
        config = karate_config(epochs=2, lr=5e-2)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match=r"last\.ckpt"):
        train_run(config, tmp_path / "run", registry=registry, resume=True)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_resuming_a_finished_run_changes_no_number(
    tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry
) -> None:
    first = train_run(karate_config(), tmp_path / "run", registry=registry)
    again = train_run(karate_config(), tmp_path / "run", registry=registry, resume=True)
    assert attrs.evolve(again, seconds=0.0) == attrs.evolve(first, seconds=0.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_compiled_blocks_train_like_plain_ones(
    tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry
) -> None:
    ends = []
    for compiled in (False, True):
        config = karate_config({"dropout": 0.0}, compile=compiled, eps=1e-3)
        train_run(config, tmp_path / str(compiled), registry=registry)
        ends.append(load_checkpoint(tmp_path / str(compiled) / "last.ckpt").model)
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.allclose(tensor, ends[1][name], atol=1e-4) for name, tensor in ends[0].items())


@pytest.mark.parametrize("precision", ["bf16", "64"])
def test_precisions(tmp_path: pathlib.Path, graphs_config: MakeConfig, registry: Registry, precision: str) -> None:
    config = graphs_config(precision=precision, epochs=2)
    result = train_run(config, tmp_path / "run", registry=registry)
    assert result.epochs == 2
    stored = load_checkpoint(tmp_path / "run" / "last.ckpt").model.values()
    expected = torch.float64 if precision == "64" else torch.float32
    assert {tensor.dtype for tensor in stored if tensor.is_floating_point()} == {expected}
