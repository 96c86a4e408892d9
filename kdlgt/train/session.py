"""From a config to a run folder: the parts meet here."""

from __future__ import annotations

import pathlib
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

import attrs

from kdlgt.build import build_model, prepare
from kdlgt.config import config_to_toml
from kdlgt.config.schema import Config, Precision, TrainConfig
from kdlgt.data.bundle import DataBundle
from kdlgt.data.load import load_data
from kdlgt.errors import ConfigError, require_at_least
from kdlgt.model import GraphTransformer
from kdlgt.registry import Registry, load_plugins
from kdlgt.train.batches import Batches
from kdlgt.train.compare import Statistic
from kdlgt.train.evaluation import finish_run
from kdlgt.train.loop import Listener, Loop
from kdlgt.train.metrics import Monitor
from kdlgt.train.objective import Objective, inverse_frequency
from kdlgt.train.processes import train_in_processes
from kdlgt.train.result import RunResult
from kdlgt.train.run_folder import RunFolder
from kdlgt.train.signals import StopRequest, stop_on_signals
from kdlgt.train.tensorboard import tensorboard_listener
from kdlgt.train.threads import cpu_threads

if TYPE_CHECKING:
    from lightning.fabric import Fabric

FabricPrecision = Literal["32-true", "64-true", "bf16-mixed", "16-mixed"]
PRECISION: dict[Precision, FabricPrecision] = {
    "32": "32-true",
    "64": "64-true",
    "bf16": "bf16-mixed",
    "16": "16-mixed",
}


@attrs.frozen(eq=False, kw_only=True)
class Session:
    """A config with its data and its model.

    Attributes:
        config: the config; ``toml`` is its resolved text.
        bundle: the prepared data.
        model: the model, on the CPU.
        batches: the loaders.
    """

    config: Config
    toml: str
    bundle: DataBundle
    model: GraphTransformer
    batches: Batches

    @classmethod
    def open(
        cls,
        config: Config,
        data_root: pathlib.Path | None = None,
        registry: Registry | None = None,
        *,
        progress: bool = False,
    ) -> Session:
        """Load the data, prepare it (with a progress bar, if asked for) and build the model.

        Raises:
            KdlgtError: whatever the data set, the encodings or the model refuse.
        """
        registry = load_plugins() if registry is None else registry
        seed, data = config.train.seed, config.data
        transform = prepare(config.model, registry, symmetrise=data.symmetrise)
        bundle = load_data(data, root=data_root, prepare=transform, seed=seed, registry=registry, progress=progress)
        model = build_model(
            config.model,
            in_features=bundle.in_features,
            out_features=bundle.out_features,
            level=bundle.level,
            edge_features=bundle.edge_features,
            degree_histogram=bundle.degree_histogram() if _needs_degrees(config) else None,
            seed=seed,
            registry=registry,
        )
        batches = Batches(
            bundle=bundle,
            batch_size=data.batch_size,
            accumulate=config.train.accumulate,
            workers=data.workers,
            processes=config.train.devices,
        )
        return cls(config=config, toml=config_to_toml(config), bundle=bundle, model=model, batches=batches)

    @property
    def monitor(self) -> Monitor:
        """The data set's own metric."""
        return Monitor(self.bundle.metric, self.bundle.higher_is_better)

    def loop(self, folder: RunFolder, fabric: Fabric, stop: StopRequest | None = None) -> Loop:
        """The training loop over this session."""
        weights = inverse_frequency(self.bundle) if self.config.train.class_weights else None
        objective = Objective(self.bundle.task, weights)
        return Loop(self.config, self.toml, self.model, self.batches, objective, self.monitor, folder, fabric, stop)


def _needs_degrees(config: Config) -> bool:
    return config.model.local is not None and config.model.local.conv == "PNA"


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


def run_session(session: Session, folder: RunFolder, fabric: Fabric, listener: Listener | None = None) -> RunResult:
    """Train, evaluate and write everything; in each process of a data-parallel run."""
    with ExitStack() as stack:
        loop = session.loop(folder, fabric, stop=stack.enter_context(stop_on_signals()))
        loop.resume()
        loop.listeners = [] if listener is None else [listener]
        if fabric.is_global_zero:
            _begin_folder(session, folder, loop)
            loop.listeners.append(stack.enter_context(tensorboard_listener(folder, loop.progress.epoch)))
        fabric.barrier()
        loop.run()
    return finish_run(loop, session.bundle, folder, session.config)


def _begin_folder(session: Session, folder: RunFolder, loop: Loop) -> None:
    """Write what is known before the first epoch; the metrics of epochs that will be repeated are dropped."""
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write_text(folder.config, session.toml)
    folder.write_environment(session.config.train.seed)
    folder.write_json(folder.split, session.bundle.split.to_dict())
    folder.truncate_metrics(loop.progress.epoch)


def make_fabric(config: TrainConfig) -> Fabric:
    """Device, precision and processes of a run.

    Raises:
        ConfigError: a device or precision that this machine does not have.
    """
    import torch
    from lightning.fabric import Fabric

    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("train.device = 'cuda', but torch sees no GPU; set it to 'auto' or 'cpu'")
    accelerator = {"auto": "cuda" if torch.cuda.is_available() else "cpu"}.get(config.device, config.device)
    if config.precision == "16" and accelerator == "cpu":
        raise ConfigError("train.precision = '16' needs a GPU; on a CPU use 'bf16' or '32'")
    strategy = "ddp_spawn" if config.devices > 1 else "auto"
    return Fabric(
        accelerator=accelerator, devices=config.devices, strategy=strategy, precision=PRECISION[config.precision]
    )


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
