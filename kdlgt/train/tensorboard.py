"""TensorBoard events of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kdlgt.train.loop import EpochRecord, Listener
from kdlgt.train.run_folder import RunFolder


@contextmanager
def tensorboard_listener(folder: RunFolder, completed: int) -> Iterator[Listener]:
    """A listener that writes every number of an epoch; what was written after ``completed`` epochs is purged."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder.tensorboard), purge_step=completed + 1 if completed else None) as writer:

        def write(record: EpochRecord) -> None:
            for name, value in record.row.items():
                if name != "epoch":
                    writer.add_scalar(name, value, record.epoch)

        yield write
