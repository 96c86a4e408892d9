"""Runs of a config: one, or one per seed, in one process or several."""

from __future__ import annotations

import pathlib

import attrs

from kdlgt.config.schema import Config
from kdlgt.errors import require_at_least
from kdlgt.registry import Registry, load_plugins
from kdlgt.train.compare import Statistic
from kdlgt.train.fabric import make_fabric
from kdlgt.train.loop import Listener
from kdlgt.train.processes import train_in_processes
from kdlgt.train.result import RunResult
from kdlgt.train.run_folder import RunFolder
from kdlgt.train.session import Session, run_session
from kdlgt.train.threads import cpu_threads


def train_run(
    config: Config,
    run_dir: pathlib.Path,
    *,
    data_root: pathlib.Path | None = None,
    resume: bool = False,
    registry: Registry | None = None,
    listener: Listener | None = None,
) -> RunResult:
    """Train a config into a run folder, and evaluate its best weights.

    Args:
        config: the config.
        run_dir: the folder; new or empty, or with ``resume`` that of an earlier run of the same config.
        data_root: folder of data sets; ``None`` for ``$KDLGT_DATA``, else a download.
        resume: go on from the last checkpoint; on a CPU the outcome is that of an uninterrupted run.
        registry: the plugins; default: all that are installed.
        listener: called after every epoch.

    Raises:
        KdlgtError: the folder, the data, the model or a checkpoint cannot be used, or training cannot go on.
    """
    folder = RunFolder.start(run_dir, resume=resume)
    registry = load_plugins() if registry is None else registry
    if config.train.devices > 1:
        return train_in_processes(config, folder, data_root, registry)
    with cpu_threads(config.train.threads):
        session = Session.open(config, data_root, registry)
        return run_session(session, folder, make_fabric(config.train), listener)


def train_seeds(
    config: Config,
    run_dir: pathlib.Path,
    seeds: int,
    *,
    data_root: pathlib.Path | None = None,
    resume: bool = False,
    registry: Registry | None = None,
    listener: Listener | None = None,
) -> dict[str, Statistic]:
    """Train with ``seeds`` consecutive seeds into ``run_dir/seed-<n>``; mean and deviation of the test metrics.

    ``run_dir/result.json`` holds the means under ``test`` and the deviations under ``deviation``.

    Raises:
        KdlgtError: as :func:`train_run`.
    """
    require_at_least("seeds", seeds, 1)
    numbers = range(config.train.seed, config.train.seed + seeds)
    results = []
    for number in numbers:
        seeded = attrs.evolve(config, train=attrs.evolve(config.train, seed=number))
        target = run_dir / f"seed-{number}"
        results.append(
            train_run(seeded, target, data_root=data_root, resume=resume, registry=registry, listener=listener)
        )
    summary = {metric: Statistic.of([result.test[metric] for result in results]) for metric in results[0].test}
    tree = {
        "test": {metric: value.mean for metric, value in summary.items()},
        "deviation": {metric: value.deviation for metric, value in summary.items()},
        "seeds": list(numbers),
    }
    folder = RunFolder(run_dir)
    folder.write_json(folder.result, tree)
    return summary
