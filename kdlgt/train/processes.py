"""Data-parallel training in several processes: gloo on a CPU, NCCL on GPUs."""

from __future__ import annotations

import functools
import pathlib
from typing import TYPE_CHECKING

from kdlgt.config.schema import Config
from kdlgt.errors import ConfigError, TrainingError
from kdlgt.registry import Registry
from kdlgt.train.fabric import make_fabric
from kdlgt.train.result import RunResult
from kdlgt.train.run_folder import RunFolder
from kdlgt.train.session import Session, run_session
from kdlgt.train.threads import cpu_threads

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def train_in_processes(
    config: Config, folder: RunFolder, data_root: pathlib.Path | None, registry: Registry
) -> RunResult:
    """Train with ``train.devices`` processes; each reads the data and takes its share of every epoch.

    Raises:
        ConfigError: node-level data, whose one graph is one batch.
        TrainingError: a process failed; the message is the process's own.
    """
    from torch.multiprocessing.spawn import ProcessException

    name = config.data.dataset.name
    if registry.dataset_specs[name].level == "node":
        raise ConfigError(
            f"train.devices = {config.train.devices}, but {name} is one graph and one batch; set train.devices = 1"
        )
    work = functools.partial(_worker, config=config, folder=folder, data_root=data_root)
    try:
        result: RunResult = make_fabric(config.train).launch(work)
    except ProcessException as error:
        raise TrainingError(f"a training process failed: {str(error).strip().splitlines()[-1]}") from error
    return result


def _worker(fabric: Fabric, config: Config, folder: RunFolder, data_root: pathlib.Path | None) -> RunResult:
    with cpu_threads(config.train.threads):
        return run_session(Session.open(config, data_root), folder, fabric)
