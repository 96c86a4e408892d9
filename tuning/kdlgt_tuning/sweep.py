"""A sweep from a config file to ``best.toml``: everything is checked before Ray starts."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from kdlgt.config import Config, config_from_dict, config_to_toml, read_tree
from kdlgt.config.overrides import set_value
from kdlgt.errors import ConfigError, RunFolderError
from kdlgt.registry import load_plugins
from kdlgt_tuning.files import SweepFolder
from kdlgt_tuning.objective import choose_objective
from kdlgt_tuning.outcome import TrialOutcome
from kdlgt_tuning.page import write_page
from kdlgt_tuning.settings import Settings, number_of_trials
from kdlgt_tuning.space import default_space, read_space
from kdlgt_tuning.trial import Job

STATE = "ray"
#: What must be as it was for a sweep to be resumed: Ray restores it as it was.
ASKED = ("scheduler", "search", "cpus_per_trial", "gpus_per_trial", "max_concurrent", "seed", "retries")


@attrs.frozen(eq=False, kw_only=True)
class Plan:
    """A sweep that has been checked and not yet started.

    Attributes:
        config: the file that it starts from, resolved.
        job: what all trials share.
        trials: how many there will be.
        settings: how it runs.
        folder: where results go.
        storage: where Ray keeps its state: the same folder, or a URI.
    """

    config: Config
    job: Job
    trials: int
    settings: Settings
    folder: SweepFolder
    storage: str

    @property
    def epochs(self) -> int:
        """The most epochs of a trial."""
        return self.job.space.largest("train.epochs", self.config.train.epochs)

    def record(self) -> dict[str, Any]:
        """What must be the same for the sweep to be resumed."""
        return {
            "config": config_to_toml(self.config),
            "space": [f"{parameter.path} = {parameter.domain}" for parameter in self.job.space.parameters],
            "objective": attrs.asdict(self.job.objective),
            "num_samples": self.trials,
            **{name: getattr(self.settings, name) for name in ASKED},
        }


def plan_sweep(path: pathlib.Path, settings: Settings) -> Plan:
    """Read and check everything that a sweep needs; the data set is read too.

    Raises:
        KdlgtError: the config, the space, the data set or an option cannot be used.
    """
    registry = load_plugins()
    tree = _prepared(path, settings.threads)
    config = config_from_dict(tree, registry, where=str(path))
    _require_one_process(path, config, settings)
    given = settings.space
    space = default_space(tree, registry) if given is None else read_space(given, tree, registry)
    trials = number_of_trials(settings, space)
    where = settings.storage or f"sweeps/{path.stem}"
    remote = "://" in where
    folder = SweepFolder(pathlib.Path("sweeps", path.stem) if remote else pathlib.Path(where))
    job = Job(
        tree=tree,
        space=space,
        objective=choose_objective(config, registry, settings),
        plugins=tuple(plugin.name for plugin in registry.plugins),
        data_root=None if settings.data_root is None else settings.data_root.absolute(),
        adopt=settings.scheduler == "pbt",
    )
    storage = where if remote else str(folder.path.absolute())
    return Plan(config=config, job=job, trials=trials, settings=settings, folder=folder, storage=storage)


def _require_one_process(path: pathlib.Path, config: Config, settings: Settings) -> None:
    train = config.train
    if train.devices != 1:
        raise ConfigError(f"{path}: train.devices = {train.devices}; a trial is one process, set it to 1")
    if train.device == "cuda" and settings.gpus_per_trial == 0:
        raise ConfigError(f"{path}: train.device = 'cuda' with --gpus-per-trial 0; ask for a GPU, or set it to 'auto'")


def _prepared(path: pathlib.Path, threads: int) -> dict[str, Any]:
    """The config's tree, where a trial keeps to its share of the machine; the best config repeats its score so."""
    tree = read_tree(path)
    config = config_from_dict(tree, where=str(path))
    if config.train.threads is None:
        tree = set_value(tree, "train.threads", threads)
    if config.data.prepare_workers is None:
        tree = set_value(tree, "data.prepare_workers", threads)
    return tree


def begin(plan: Plan) -> None:
    """Claim the sweep's folder.

    Raises:
        RunFolderError: the folder holds a sweep and ``resume`` is off, or another sweep, or something else.
    """
    folder, now = plan.folder, json.loads(json.dumps(plan.record()))
    before = folder.read_record()
    if before is not None:
        if not plan.settings.resume:
            raise RunFolderError(f"{folder.path} already holds a sweep; go on with --resume, or give another --storage")
        _require_same(folder.path, before, now)
    elif folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
        raise RunFolderError(f"{folder.path} exists and holds no sweep; give another --storage")
    else:
        folder.write_record(now)


def _require_same(path: pathlib.Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    differing = [name for name in now if before.get(name) != now[name]]
    if differing:
        words = "; ".join(f"{name}: {_short(before.get(name))} there, {_short(now[name])} here" for name in differing)
        raise RunFolderError(
            f"{path} holds a sweep that was started otherwise ({words}); resume it with the options it was started "
            "with, or give another --storage"
        )


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def finish(plan: Plan, outcomes: Sequence[TrialOutcome]) -> None:
    """Write ``results.csv``, ``best.toml`` and ``report.html``."""
    job = plan.job
    plan.folder.write_results(outcomes, job.space, job.objective)
    plan.folder.write_best(outcomes, job)
    write_page(plan.folder, outcomes, job.space, job.objective)
