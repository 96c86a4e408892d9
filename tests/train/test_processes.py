from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
import torch

from kdlgt.config import Config
from kdlgt.registry import Registry
from kdlgt.train import RunFolder, train_run
from kdlgt.train.batches import Batches
from kdlgt.train.checkpoint import load_checkpoint
from kdlgt.train.session import Session

MakeConfig = Callable[..., Config]


def test_processes_share_an_epoch_without_gaps(graphs_config: MakeConfig, registry: Registry) -> None:
    session = Session.open(graphs_config(), registry=registry)
    batches = Batches(bundle=session.bundle, batch_size=3, processes=3)
    shares = [list(batches.training(0, 0, rank=rank)) for rank in range(3)]
    sizes = {sum(batch.num_graphs for batch in share) for share in shares}
    assert sizes == {-(-session.bundle.split.train.numel() // 3)}
    seen = torch.cat([batch.x.reshape(-1, 8) for share in shares for batch in share])
    given = torch.stack([graph.x.reshape(-1) for graph in session.bundle.train])
    assert set(map(tuple, seen.tolist())) == set(map(tuple, given.tolist()))


def test_the_order_depends_on_seed_and_epoch_and_done_steps_are_left_out(
    graphs_config: MakeConfig, registry: Registry
) -> None:
    batches = Session.open(graphs_config(accumulate=2), registry=registry).batches

    def order(seed: int, epoch: int, done: int = 0) -> list[list[float]]:
        return [batch.x.reshape(-1).tolist() for batch in batches.training(seed, epoch, done)]

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)
    assert order(1, 2, done=2) == order(1, 2)[4:]
    assert order(1, 2, done=batches.steps) == []


@pytest.mark.slow
def test_two_processes_step_like_one_with_twice_the_batch(
    tmp_path: pathlib.Path, graphs_config: MakeConfig, registry: Registry
) -> None:
    ends = []
    for name, devices, size in (("one", 1, 28), ("two", 2, 14)):
        config = graphs_config(
            {"dropout": 0.0}, {"batch_size": size}, devices=devices, precision="64", eps=1e-3, epochs=3
        )
        train_run(config, tmp_path / name, registry=registry)
        ends.append(load_checkpoint(RunFolder(tmp_path / name).last))
    assert ends[0].epoch == ends[1].epoch == 3
    assert all(torch.allclose(tensor, ends[1].model[name], atol=1e-8) for name, tensor in ends[0].model.items())
