"""A config with its data and its model, and the one way from there to a run folder: the parts meet here."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import attrs

from kdlgt.build import build_model, prepare
from kdlgt.config import config_to_toml
from kdlgt.config.schema import Config
from kdlgt.data.bundle import DataBundle
from kdlgt.data.load import load_data
from kdlgt.model import GraphTransformer
from kdlgt.registry import Registry, load_plugins
from kdlgt.train.batches import Batches
from kdlgt.train.components import component_owners
from kdlgt.train.evaluation import finish_run
from kdlgt.train.loop import Listener, Loop
from kdlgt.train.metrics import Monitor
from kdlgt.train.objective import Objective, inverse_frequency
from kdlgt.train.result import RunResult
from kdlgt.train.run_folder import RunFolder
from kdlgt.train.signals import StopRequest, stop_on_signals
from kdlgt.train.tensorboard import tensorboard_listener

if TYPE_CHECKING:
    from lightning.fabric import Fabric


@attrs.frozen(eq=False, kw_only=True)
class Session:
    """A config with its data and its model.

    Attributes:
        config: the config; ``toml`` is its resolved text.
        bundle: the prepared data.
        model: the model, on the CPU.
        batches: the loaders.
        components: distribution of every component, by kind and name.
    """

    config: Config
    toml: str
    bundle: DataBundle
    model: GraphTransformer
    batches: Batches
    components: Mapping[str, str]

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
        return cls(
            config=config,
            toml=config_to_toml(config),
            bundle=bundle,
            model=model,
            batches=batches,
            components=component_owners(config, registry),
        )

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
    folder.write_environment(session.config.train.seed, session.components)
    folder.write_json(folder.split, session.bundle.split.to_dict())
    folder.truncate_metrics(loop.progress.epoch)
