"""What the loop iterates over: one full graph per epoch at node level, seeded mini-batches at graph level."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import attrs
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from kdlgt.data.bundle import DataBundle
from kdlgt.train.seeding import Stream, derive_seed

Part = Literal["train", "val", "test"]
PARTS: tuple[Part, ...] = ("train", "val", "test")


@attrs.frozen(eq=False, kw_only=True)
class Batches:
    """The batches of a data set.

    Attributes:
        bundle: the data set.
        batch_size: graphs per batch and process.
        accumulate: batches per optimiser step.
        workers: loader processes.
        processes: training processes, each with its share of every epoch.
    """

    bundle: DataBundle
    batch_size: int
    accumulate: int = 1
    workers: int = 0
    processes: int = 1

    @property
    def steps(self) -> int:
        """Optimiser steps per epoch."""
        if self.bundle.level == "node":
            return 1
        share = math.ceil(self.bundle.split.train.numel() / self.processes)
        return math.ceil(share / (self.batch_size * self.accumulate))

    def on_device(self, move: Callable[[Data], Data]) -> Batches:
        """The same, with the one graph of a node-level data set moved once; mini-batches are moved as they come."""
        if self.bundle.level == "graph":
            return self
        return attrs.evolve(self, bundle=attrs.evolve(self.bundle, graphs=(move(copy.copy(self.bundle.graph)),)))

    def training(self, seed: int, epoch: int, done: int = 0, rank: int = 0) -> Iterable[Data]:
        """Batches of one epoch in the order given by ``(seed, epoch)``, without those of the first ``done`` steps.

        Every process gets the same number of graphs: the order wraps around where they do not divide.
        """
        if self.bundle.level == "node":
            return [self.bundle.graph][done:]
        graphs = self.bundle.train
        generator = torch.Generator().manual_seed(derive_seed(seed, Stream.SHUFFLE, epoch))
        order = torch.randperm(len(graphs), generator=generator)
        padded = order.repeat(2)[: math.ceil(len(graphs) / self.processes) * self.processes]
        mine = padded[rank :: self.processes][done * self.batch_size * self.accumulate :]
        return self._loader([graphs[number] for number in mine.tolist()])

    def evaluation(self, part: Part) -> Iterable[Data]:
        """Batches of a part in its own order."""
        return [self.bundle.graph] if self.bundle.level == "node" else self._loader(getattr(self.bundle, part))

    def labelled(self, output: Tensor, batch: Data, part: Part) -> tuple[Tensor, Tensor]:
        """Outputs and targets of the rows that belong to the part."""
        if self.bundle.level == "graph":
            return output, batch.y
        mask = batch[f"{part}_mask"]
        return output[mask], batch.y[mask]

    def _loader(self, graphs: Sequence[Data]) -> Iterable[Data]:
        if not graphs:
            return ()
        # A loader without a generator of its own draws from the global one.
        generator = torch.Generator().manual_seed(0)
        loader: Iterable[Data] = DataLoader(
            graphs, batch_size=self.batch_size, num_workers=self.workers, generator=generator
        )
        return loader
