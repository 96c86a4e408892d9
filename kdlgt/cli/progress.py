"""What a person sees while a model trains: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from kdlgt.train import EpochRecord, Listener

LINES = 10


@contextmanager
def progress_listener(console: Console) -> Iterator[Listener]:
    """A listener for the training loop: a progress bar on a terminal, else about ten lines per run."""
    if not console.is_terminal:
        yield lambda record: _print_line(console, record)
        return
    columns = (
        TextColumn("epoch"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        best = [""]

        def advance(record: EpochRecord) -> None:
            if record.best:
                best[0] = f"best {_value(record)}"
            bar.update(task, completed=record.epoch, total=record.epochs, description=f"{_describe(record)}  {best[0]}")

        yield advance


def _print_line(console: Console, record: EpochRecord) -> None:
    every = max(record.epochs // LINES, 1)
    if record.epoch % every == 0 or record.epoch in (1, record.epochs):
        console.print(f"epoch {record.epoch}/{record.epochs}  {_describe(record)}", highlight=False, soft_wrap=True)


def _describe(record: EpochRecord) -> str:
    return f"loss {record.row['train_loss']:.4f}  {_value(record)}"


def _value(record: EpochRecord) -> str:
    return f"{record.monitor} {record.row[record.monitor]:.4f}"
