"""Evaluate and predict from a run folder, on the same checkpoint and perhaps another config."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from kdlgt.config import load_config
from kdlgt.registry import load_plugins
from kdlgt.train.batches import PARTS, Part
from kdlgt.train.checkpoint import load_checkpoint, load_weights
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


def _outputs(
    run_dir: pathlib.Path, overrides: Sequence[str], data_root: pathlib.Path | None
) -> tuple[Session, Outputs]:
    folder = RunFolder.existing(run_dir)
    checkpoint = load_checkpoint(folder.best)
    # The split depends on the seed of the run, so it is part of what stays.
    config = load_config(folder.config, ("train.devices=1", *overrides), load_plugins())
    session = Session.open(config, data_root)
    load_weights(folder.best, checkpoint, session.model)
    loop = session.loop(folder, make_fabric(config.train))
    with isolated_random(loop.fabric.device), cpu_threads(config.train.threads):
        return session, loop.outputs(*PARTS)
