"""What a sweep optimises: a validation metric, and when asked the time per epoch as well."""

from __future__ import annotations

import attrs
import torch

from kdlgt.config import Config
from kdlgt.data.bundle import DataBundle
from kdlgt.data.load import load_data
from kdlgt.errors import ArgumentError, suggestion
from kdlgt.registry import Registry
from kdlgt.train.metrics import Monitor, scores
from kdlgt_tuning.settings import Mode, Settings

LOWER_IS_BETTER = ("loss", "mae", "rmse")


@attrs.frozen(kw_only=True)
class Objective:
    """The score of a trial: a validation metric at the epoch that the data set's own metric chooses.

    It is what ``kdlgt train`` writes into ``result.json`` under ``val``, so the best config can be checked against it.

    Attributes:
        metric: name of the validation metric.
        mode: ``max`` or ``min``.
        monitor: the data set's own metric.
        pareto: the median time per epoch is minimised too.
    """

    metric: str
    mode: Mode
    monitor: Monitor
    pareto: bool = False

    def key(self, score: float) -> float:
        """A number that is lower for better scores."""
        return -score if self.mode == "max" else score


def choose_objective(config: Config, registry: Registry, settings: Settings) -> Objective:
    """The objective for the data set of a config, which is read for this; its own metric by default.

    Raises:
        ArgumentError: a metric that the data set does not have.
        KdlgtError: the data set cannot be read.
    """
    bundle = load_data(config.data, root=settings.data_root, seed=config.train.seed, registry=registry)
    monitor = Monitor(bundle.metric, bundle.higher_is_better)
    name = (settings.metric or bundle.metric).removeprefix("val_")
    allowed = metric_names(bundle)
    if name not in allowed:
        raise ArgumentError(
            f"--metric {name}; the validation metrics of {bundle.name} are {', '.join(allowed)}."
            f"{suggestion(name, allowed)}"
        )
    return Objective(
        metric=name, mode=settings.mode or _direction(name, monitor), monitor=monitor, pareto=settings.pareto
    )


def metric_names(bundle: DataBundle) -> list[str]:
    """Names of the validation metrics, as training computes them."""
    classes = bundle.task == "multiclass"
    output = torch.zeros(2, bundle.out_features)
    target = torch.zeros(2, dtype=torch.long) if classes else torch.zeros(2, bundle.out_features)
    return ["loss", *scores(bundle.task, output, target)]


def _direction(name: str, monitor: Monitor) -> Mode:
    higher = monitor.higher_is_better if name == monitor.name else name not in LOWER_IS_BETTER
    return "max" if higher else "min"
