"""Evaluate and predict from a run folder, on the same checkpoint and perhaps another config."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from kdlgt.config import Config, load_config
from kdlgt.errors import ConfigError, RunFolderError
from kdlgt.registry import load_plugins
from kdlgt.train.batches import PARTS, Part
from kdlgt.train.checkpoint import load_checkpoint, load_weights
from kdlgt.train.components import missing_owners
from kdlgt.train.evaluation import Outputs, part_scores, write_predictions
from kdlgt.train.fabric import make_fabric
from kdlgt.train.metrics import Scores
from kdlgt.train.run_folder import RunFolder
from kdlgt.train.seeding import isolated_random
from kdlgt.train.session import Session
from kdlgt.train.threads import cpu_threads


def evaluate_run(
    run_dir: pathlib.Path, *, overrides: Sequence[str] = (), data_root: pathlib.Path | None = None
) -> dict[Part, Scores]:
    """Metrics of a run's best weights by part; ``overrides`` such as ``model.attention.mode=exact`` change the config.

    Raises:
        RunFolderError: no run there. CheckpointError: no checkpoint, or one that does not fit the changed config.
    """
    session, outputs = _outputs(run_dir, overrides, data_root)
    return part_scores(session.bundle.task, outputs)


def predict_run(
    run_dir: pathlib.Path, out: pathlib.Path, *, overrides: Sequence[str] = (), data_root: pathlib.Path | None = None
) -> int:
    """Write the predictions of a run's best weights to a CSV file; return the number of rows.

    Raises:
        RunFolderError, CheckpointError: as :func:`evaluate_run`.
    """
    session, outputs = _outputs(run_dir, overrides, data_root)
    return write_predictions(out, session.bundle, outputs)


def open_run(run_dir: pathlib.Path, *, overrides: Sequence[str] = (), data_root: pathlib.Path | None = None) -> Session:
    """A run's config, perhaps changed, its data, and its model with the best weights.

    Raises:
        RunFolderError: no run there, or it needs a plugin that is not installed.
        CheckpointError: no checkpoint, or one that does not fit the changed config.
    """
    folder = RunFolder.existing(run_dir)
    checkpoint = load_checkpoint(folder.best)
    session = Session.open(_config(folder, overrides), data_root)
    load_weights(folder.best, checkpoint, session.model, overrides)
    return session


def _config(folder: RunFolder, overrides: Sequence[str]) -> Config:
    """The run's config for one process; its split depends on the seed of the run, so that is part of what stays."""
    registry = load_plugins()
    try:
        return load_config(folder.config, ("train.devices=1", *overrides), registry)
    except ConfigError as error:
        lacking = missing_owners(folder.read_components(), registry)
        if not lacking:
            raise
        raise RunFolderError(f"the run in {folder.path} used {', '.join(lacking)}; install that. {error}") from error


def _outputs(
    run_dir: pathlib.Path, overrides: Sequence[str], data_root: pathlib.Path | None
) -> tuple[Session, Outputs]:
    session = open_run(run_dir, overrides=overrides, data_root=data_root)
    threads = session.config.train.threads
    loop = session.loop(RunFolder(run_dir), make_fabric(session.config.train))
    with isolated_random(loop.fabric.device), cpu_threads(threads):
        return session, loop.outputs(*PARTS)
