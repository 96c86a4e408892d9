"""The health report of a run, or of a config's untrained model, on its own data."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterable, Sequence

import attrs
from torch_geometric.data import Data

from kdlgt.config import load_config
from kdlgt.errors import ConfigError
from kdlgt.model import GraphTransformer, ModelHealth, model_health
from kdlgt.registry import load_plugins
from kdlgt.train.rerun import open_run
from kdlgt.train.runs import train_run
from kdlgt.train.session import Session


@attrs.frozen(eq=False, kw_only=True)
class OpenedModel:
    """A model with a batch of the data that it is for.

    Attributes:
        name: the run folder or the config's path.
        model: in evaluation mode, on the CPU.
        batch: the first batch of the validation part.
        trained: whether the weights come from a run.
    """

    name: str
    model: GraphTransformer
    batch: Data
    trained: bool


def open_model(
    target: pathlib.Path, *, overrides: Sequence[str] = (), data_root: pathlib.Path | None = None
) -> OpenedModel:
    """Open a run folder with its best weights, or build a config's untrained model.

    Raises:
        KdlgtError: the run, the config or its data cannot be used.
    """
    trained = target.is_dir()
    if trained:
        session = open_run(target, overrides=overrides, data_root=data_root)
    else:
        config = load_config(target, ("train.devices=1", *overrides), load_plugins())
        session = Session.open(config, data_root)
    batch = first_batch(session.batches.evaluation("val"))
    return OpenedModel(name=str(target), model=session.model.eval(), batch=batch, trained=trained)


def open_trained(
    target: pathlib.Path, *, overrides: Sequence[str] = (), data_root: pathlib.Path | None = None
) -> OpenedModel:
    """Open a run folder, or train a config into a folder that is removed afterwards.

    Raises:
        KdlgtError: as :func:`open_model`, or training failed.
    """
    if target.is_dir():
        return open_model(target, overrides=overrides, data_root=data_root)
    registry = load_plugins()
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        train_run(load_config(target, overrides, registry), run, data_root=data_root, registry=registry)
        return attrs.evolve(open_model(run, data_root=data_root), name=str(target))


def first_batch(batches: Iterable[Data]) -> Data:
    """The first batch; :class:`ConfigError` when there is none."""
    for batch in batches:
        return batch
    raise ConfigError("the validation part is empty; give it a share in data.ratios")


def run_health(
    target: pathlib.Path,
    *,
    overrides: Sequence[str] = (),
    data_root: pathlib.Path | None = None,
    rows: int = 64,
    seed: int = 0,
) -> ModelHealth:
    """The health of a run's best weights, or of a config's untrained model.

    Raises:
        KdlgtError: the target cannot be used, or the model has no attention.
    """
    opened = open_model(target, overrides=overrides, data_root=data_root)
    return model_health(opened.model, opened.batch, rows=rows, seed=seed)
