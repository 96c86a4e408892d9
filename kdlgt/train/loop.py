"""The training loop, on Lightning Fabric: devices, precision and processes are Fabric's, the order of events is ours.

Lightning's Trainer draws dropout from the global random state as it runs and keeps loop counters of its own, so a run
killed in mid-epoch does not go on as if nothing had happened. Here every step seeds itself from (seed, epoch, step),
and a checkpoint between any two steps resumes exactly.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.config.schema import Config
from kdlgt.errors import TrainingError
from kdlgt.model import GraphTransformer
from kdlgt.train.batches import Batches, Part
from kdlgt.train.checkpoint import Checkpoint, load_checkpoint, load_weights, require_same_config, save_checkpoint
from kdlgt.train.compilation import compile_blocks
from kdlgt.train.diagnosis import explain_not_finite, explain_out_of_memory
from kdlgt.train.metrics import Monitor, Scores, scores
from kdlgt.train.objective import Objective
from kdlgt.train.run_folder import RunFolder
from kdlgt.train.schedule import build_optimizer, learning_rate, set_learning_rate
from kdlgt.train.seeding import Stream, derive_seed, isolated_random
from kdlgt.train.signals import StopRequest

if TYPE_CHECKING:
    from lightning.fabric import Fabric


@attrs.frozen(kw_only=True)
class EpochRecord:
    """What is known after an epoch.

    Attributes:
        epoch: completed epochs.
        epochs: epochs in all.
        row: the row of ``metrics.csv``.
        best: whether it is the best so far.
        monitor: name of the metric that decides.
    """

    epoch: int
    epochs: int
    row: dict[str, float]
    best: bool
    monitor: str


Listener = Callable[[EpochRecord], None]


@attrs.define
class Progress:
    """Plain numbers of a run that a checkpoint keeps.

    Attributes:
        epoch: completed epochs.
        step: completed optimiser steps of the current epoch.
        loss_sum, loss_count: training loss of the current epoch so far.
        best_epoch: the best epoch; 0 before the first.
        best_value, best_loss: its validation metric and loss.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    best_epoch: int = 0
    best_value: float = float("nan")
    best_loss: float = float("nan")


class Loop:
    """Train a model until the last epoch, until patience runs out, or until a signal.

    Args:
        config: the whole config; ``toml`` is its resolved text.
        model: the model, on the CPU.
        batches: the data.
        objective: the loss; ``monitor`` the metric that chooses the best epoch.
        folder: where checkpoints and metrics go.
        fabric: device, precision, processes.
        stop: read after every step.

    Attributes:
        listeners: called after every epoch on the first process.
    """

    def __init__(
        self,
        config: Config,
        toml: str,
        model: GraphTransformer,
        batches: Batches,
        objective: Objective,
        monitor: Monitor,
        folder: RunFolder,
        fabric: Fabric,
        stop: StopRequest | None = None,
    ) -> None:
        self.config, self.toml, self.folder, self.fabric = config, toml, folder, fabric
        self.batches, self.objective, self.monitor = batches.on_device(self.on_device), objective, monitor
        self.stop = stop or StopRequest()
        self.listeners: list[Listener] = []
        self.model = model.double() if config.train.precision == "64" else model
        self.progress = Progress()
        self.optimizer = build_optimizer(config.train, self.model.parameters())
        if config.train.compile:
            compile_blocks(self.model)
        self.forward, self.stepper = fabric.setup(self.model, self.optimizer)
        self.after_step = [hook for hook in map(_after_step_hook, self.model.modules()) if hook is not None]

    def resume(self) -> None:
        """Load ``last.ckpt``, where there is one.

        Raises:
            CheckpointError: truncated, foreign, or of another config; nothing is overwritten.
        """
        if not self.folder.last.exists():
            return
        checkpoint = load_checkpoint(self.folder.last)
        require_same_config(self.folder.last, checkpoint, self.toml)
        load_weights(self.folder.last, checkpoint, self.model)
        self.optimizer.load_state_dict(checkpoint.optimizer)
        self.fabric.strategy.precision.load_state_dict(checkpoint.scaler)
        self.progress = Progress(epoch=checkpoint.epoch, step=checkpoint.step, **checkpoint.progress)  # type: ignore[arg-type]

    def run(self) -> None:
        """Run the epochs that are left.

        Raises:
            TrainingError: the loss is not finite, memory has run out, or a signal asked to stop.
        """
        with isolated_random(self.fabric.device), explain_out_of_memory(self.config, self._position):
            while self.progress.epoch < self.config.train.epochs and not self._out_of_patience():
                self._epoch()

    def _out_of_patience(self) -> bool:
        patience = self.config.train.patience
        return 0 < patience <= self.progress.epoch - self.progress.best_epoch

    def _position(self) -> str:
        return f"epoch {self.progress.epoch + 1}, step {self.progress.step + 1} of {self.batches.steps}"

    def _epoch(self) -> None:
        start = time.perf_counter()
        self.forward.train()
        state = self.progress
        batches = self.batches.training(self.config.train.seed, state.epoch, state.step, self.fabric.global_rank)
        for group in grouped(batches, self.config.train.accumulate):
            self._step(group)
            self._obey_stop()
        seconds = time.perf_counter() - start
        self._finish_epoch(self.validate(), seconds)

    def _step(self, group: list[Data]) -> None:
        """One optimiser step over the accumulated batches."""
        state, seed = self.progress, self.config.train.seed
        torch.manual_seed(derive_seed(seed, Stream.DROPOUT, state.epoch, state.step, self.fabric.global_rank))
        rate = learning_rate(self.config.train, state.epoch * self.batches.steps + state.step, self.batches.steps)
        set_learning_rate(self.optimizer, rate)
        self._redraw()
        self.stepper.zero_grad()
        for index, batch in enumerate(group):
            with self.fabric.no_backward_sync(self.forward, enabled=index + 1 < len(group)):
                self._backward(batch, len(group))
        if self.config.train.clip > 0:
            self.fabric.clip_gradients(
                self.forward, self.stepper, max_norm=self.config.train.clip, error_if_nonfinite=False
            )
        self.stepper.step()
        for hook in self.after_step:
            hook()
        state.step += 1

    def _redraw(self) -> None:
        """Draw new projections every so many steps, from the seed and the step alone."""
        state, every = self.progress, self.config.model.attention.redraw_every
        taken = state.epoch * self.batches.steps + state.step
        if every > 0 and taken > 0 and taken % every == 0:
            self.model.redraw(derive_seed(self.config.train.seed, Stream.REDRAW, taken))

    def _backward(self, batch: Data, group_size: int) -> None:
        batch = self.on_device(batch)
        loss = self.objective.loss(*self.batches.labelled(self.forward(batch), batch, "train"))
        value = float(loss.detach())
        if not torch.isfinite(loss.detach()):
            self._stop_not_finite(batch, value)
        self.fabric.backward(loss / group_size)
        self.progress.loss_sum += value
        self.progress.loss_count += 1

    def _stop_not_finite(self, batch: Data, value: float) -> None:
        cause = explain_not_finite(self.model, lambda: self.forward(batch))
        good = self.folder.last if self.folder.last.exists() else "none yet"
        raise TrainingError(
            f"the loss is {value} in {self._position()}: {cause}; last good checkpoint: {good}. Lower train.lr (now "
            f"{self.config.train.lr}), set train.clip = 1.0 or model.attention.normalise = true, and look for extreme "
            "features"
        )

    def on_device(self, batch: Data) -> Data:
        """The batch on the run's device, in its dtype."""
        moved = batch.to(self.fabric.device)
        if self.config.train.precision != "64":
            return moved
        return moved.apply(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)

    def validate(self) -> Scores:
        """Loss and metrics on the validation part; every process computes all of it, the first one's count."""
        output, target = self.outputs("val")["val"]
        score = {"loss": float(self.objective.loss(output, target)), **scores(self.objective.task, output, target)}
        return self.fabric.broadcast(score)

    def outputs(self, *parts: Part) -> dict[Part, tuple[Tensor, Tensor]]:
        """Outputs and targets of whole parts, on the CPU, in order; one forward serves all parts of one graph."""
        if self.batches.bundle.level == "node":
            batch = self.on_device(self.batches.bundle.graph)
            output = self._evaluate(batch)
            return {part: _on_cpu([self.batches.labelled(output, batch, part)]) for part in parts}
        return {part: _on_cpu(self._labelled(part)) for part in parts}

    def _labelled(self, part: Part) -> list[tuple[Tensor, Tensor]]:
        batches = map(self.on_device, self.batches.evaluation(part))
        return [self.batches.labelled(self._evaluate(batch), batch, part) for batch in batches]

    def _evaluate(self, batch: Data) -> Tensor:
        """Forward without the data-parallel wrapper, whose collectives belong to training."""
        self.model.eval()
        with torch.no_grad(), self.fabric.autocast():
            result: Tensor = self.model(batch)
        return result

    def _finish_epoch(self, score: Scores, seconds: float) -> None:
        state = self.progress
        mean_loss = state.loss_sum / max(state.loss_count, 1)
        state.epoch, state.step, state.loss_sum, state.loss_count = state.epoch + 1, 0, 0.0, 0
        best = state.best_epoch == 0 or self.monitor.better(
            score, {self.monitor.name: state.best_value, "loss": state.best_loss}
        )
        if best:
            state.best_epoch, state.best_value, state.best_loss = state.epoch, score[self.monitor.name], score["loss"]
        row = {"epoch": state.epoch, "train_loss": mean_loss, **{f"val_{name}": value for name, value in score.items()}}
        row |= {"lr": self.optimizer.param_groups[0]["lr"], "seconds": seconds}
        if self.fabric.is_global_zero:
            self._write(row, best)
        self.fabric.barrier()

    def _write(self, row: dict[str, float], best: bool) -> None:
        """Metrics first, then the checkpoint that makes them final: a resumed run rewrites what came after it."""
        if best:
            save_checkpoint(
                self.folder.best, Checkpoint(config=self.toml, epoch=self.progress.epoch, model=self.model.state_dict())
            )
        self.folder.append_metrics(row)
        self.save()
        record = EpochRecord(
            epoch=self.progress.epoch,
            epochs=self.config.train.epochs,
            row=row,
            best=best,
            monitor=f"val_{self.monitor.name}",
        )
        for listener in self.listeners:
            listener(record)

    def save(self) -> None:
        """Write ``last.ckpt``."""
        numbers = attrs.asdict(self.progress)
        epoch, step = numbers.pop("epoch"), numbers.pop("step")
        checkpoint = Checkpoint(
            config=self.toml,
            epoch=epoch,
            step=step,
            model=self.model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            scaler=self.fabric.strategy.precision.state_dict(),
            progress=numbers,
        )
        save_checkpoint(self.folder.last, checkpoint)

    def _obey_stop(self) -> None:
        if self.stop.signal is None:
            return
        if self.fabric.is_global_zero:
            self.save()
        raise TrainingError(
            f"stopped by {self.stop.signal.name} after {self.progress.epoch} epochs and {self.progress.step} steps; "
            f"{self.folder.last} was written. Go on with --resume"
        )


def _after_step_hook(module: nn.Module) -> Callable[[], Any] | None:
    """The module's own work between two steps: committing moments, redrawing projections."""
    hook = getattr(module, "after_optimizer_step", None)
    return hook if callable(hook) else None


def grouped(batches: Iterable[Data], size: int) -> Iterator[list[Data]]:
    """Lists of ``size`` batches, the last one perhaps shorter."""
    iterator = iter(batches)
    while group := list(itertools.islice(iterator, size)):
        yield group


def _on_cpu(labelled: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Outputs and targets of all batches, joined."""
    outputs, targets = zip(*labelled, strict=True)
    return torch.cat(outputs).float().cpu(), torch.cat(targets).cpu()
