"""One trial: a plain function from a sampled config to metrics, which knows nothing of Ray."""

from __future__ import annotations

import gc
import pathlib
import statistics
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs
import torch

from kdlgt.config import Config, config_from_dict, config_to_toml
from kdlgt.errors import ConfigError, KdlgtError
from kdlgt.registry import Registry, load_plugins
from kdlgt.train import EpochRecord, RunFolder, train_run
from kdlgt.train.checkpoint import load_checkpoint, save_checkpoint
from kdlgt_tuning.objective import Objective
from kdlgt_tuning.space import Space

Status = Literal["running", "finished", "stopped", "failed", "out of memory", "lost", "unfinished"]
Metrics = dict[str, Any]
Report = Callable[[Metrics], None]
LONGEST_ERROR = 500
#: What the allocators of torch say, on GPUs and on a CPU.
OUT_OF_MEMORY = ("out of memory", "allocate memory")


@attrs.frozen(eq=False, kw_only=True)
class Job:
    """What all trials of a sweep share; it travels to the workers.

    Attributes:
        tree: the config as a plain tree.
        space: what varies.
        objective: what is optimised.
        plugins: entry-point names of the plugins that work where the sweep was started.
        data_root: folder of data sets.
        adopt: a trial may go on from the checkpoint of another config (population based training).
    """

    tree: Mapping[str, Any]
    space: Space
    objective: Objective
    plugins: tuple[str, ...] = ()
    data_root: pathlib.Path | None = None
    adopt: bool = False

    def config(self, sample: Mapping[str, Any], registry: Registry | None = None) -> Config:
        """The config of a sample.

        Raises:
            ConfigError: values that do not go together.
        """
        return config_from_dict(self.space.apply(self.tree, sample), registry)


def run_trial(job: Job, sample: Mapping[str, Any], folder: pathlib.Path, report: Report | None = None) -> Metrics:
    """Train the config of a sample in ``folder``, going on from a checkpoint there, and return its metrics.

    Args:
        job: what all trials share.
        sample: values by path, as a search engine drew them.
        folder: a run folder, perhaps of an earlier attempt.
        report: called after every epoch, when the checkpoint is written.

    Returns:
        ``status``, ``epoch``, ``best_epoch``, ``score``, ``seconds``, ``seconds_per_epoch``, ``threads``, ``error``.

    Raises:
        KdlgtError: as :func:`kdlgt.train.train_run`; a plugin of the sweep is missing here.
    """
    registry = load_plugins()
    _require_plugins(job, registry)
    config = job.config(sample, registry)
    if job.adopt:
        adopt_checkpoint(RunFolder(folder), config)
    tally = Tally(job.objective, RunFolder(folder).read_metrics()[1])

    def listen(record: EpochRecord) -> None:
        tally.add(record.row)
        if report is not None:
            report({**tally.metrics(), "status": "running", "error": ""})

    result = train_run(config, folder, data_root=job.data_root, resume=True, registry=registry, listener=listen)
    return {**tally.metrics(), "best_epoch": result.best_epoch, "status": "finished", "error": ""}


def attempt_trial(job: Job, sample: Mapping[str, Any], folder: pathlib.Path, report: Report | None = None) -> Metrics:
    """:func:`run_trial`, but what goes wrong becomes the ``status`` and ``error`` of the metrics."""
    try:
        return run_trial(job, sample, folder, report)
    except Exception as error:  # noqa: BLE001 - plugins may raise anything, and the sweep must go on
        return _failure(error)
    finally:
        gc.collect()  # the frames of a failed trial hold its tensors
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _failure(error: Exception) -> Metrics:
    text = str(error) if isinstance(error, KdlgtError) else f"{type(error).__name__}: {error} ({_place(error)})"
    memory = isinstance(error, MemoryError) or any(words in text for words in OUT_OF_MEMORY)
    return {"status": "out of memory" if memory else "failed", "error": " ".join(text.split())[:LONGEST_ERROR]}


def _place(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{pathlib.Path(frame.filename).name}, line {frame.lineno}"


def _require_plugins(job: Job, registry: Registry) -> None:
    here = {plugin.name for plugin in registry.plugins}
    missing = [name for name in job.plugins if name not in here]
    if missing:
        broken = "; ".join(f"{plugin.name}: {plugin.reason}" for plugin in registry.broken if plugin.name in missing)
        raise ConfigError(
            f"this worker lacks the plugins {', '.join(missing)} that the sweep was started with; install them on "
            f"every node{f' ({broken})' if broken else ''}"
        )


def adopt_checkpoint(folder: RunFolder, config: Config) -> None:
    """Let a checkpoint pass as one of ``config``; the optimiser's settings follow it, its state stays."""
    if not folder.last.is_file():
        return
    checkpoint = load_checkpoint(folder.last)
    train = config.train
    settings = {"weight_decay": train.weight_decay, "betas": train.betas, "eps": train.eps}
    groups = [{**group, **settings} for group in checkpoint.optimizer["param_groups"]]
    optimizer = {**checkpoint.optimizer, "param_groups": groups}
    save_checkpoint(folder.last, attrs.evolve(checkpoint, config=config_to_toml(config), optimizer=optimizer))


class Tally:
    """The metrics of a trial from its epochs.

    Args:
        objective: which metric is the score, and which chooses the best epoch.
        rows: epochs before the trial was interrupted, as in ``metrics.csv``.
    """

    def __init__(self, objective: Objective, rows: list[dict[str, float]]) -> None:
        self.objective = objective
        self.rows: list[dict[str, float]] = []
        self.best: dict[str, float] = {}
        for row in rows:
            self.add(row)

    def add(self, row: dict[str, float]) -> None:
        """Count one epoch; one that is run again after an interruption replaces its first run."""
        self.rows = [old for old in self.rows if old["epoch"] < row["epoch"]]
        self.rows.append(row)
        if not self.best or self.objective.monitor.better(validation(row), validation(self.best)):
            self.best = row

    def metrics(self) -> Metrics:
        """Plain numbers."""
        seconds = [row["seconds"] for row in self.rows]
        return {
            "epoch": int(self.rows[-1]["epoch"]),
            "best_epoch": int(self.best["epoch"]),
            "score": float(self.best[f"val_{self.objective.metric}"]),
            "seconds": sum(seconds),
            "seconds_per_epoch": statistics.median(seconds),
        }


def validation(row: Mapping[str, float]) -> dict[str, float]:
    """The validation scores of a row of ``metrics.csv``."""
    return {name.removeprefix("val_"): value for name, value in row.items() if name.startswith("val_")}
