"""How a sweep runs, and which ways of searching go together."""

from __future__ import annotations

import pathlib
from typing import Annotated, Literal

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from kdlgt.errors import ArgumentError
from kdlgt_tuning.domains import Choice, IntegerRange
from kdlgt_tuning.space import Space

Mode = Literal["max", "min"]
Scheduler = Literal["asha", "median", "pbt", "none"]
Search = Literal["random", "optuna", "grid"]
DEFAULT_SAMPLES = 16
#: Paths that can change in a running trial: the model's parameters keep their shapes, the data stay the same.
MUTABLE = (
    "train.lr",
    "train.weight_decay",
    "train.clip",
    "train.eps",
    "model.dropout",
    "model.attention_dropout",
    "model.input_dropout",
)


Flag = Parameter(negative=())
AtLeastOne = Parameter(validator=Number(gte=1))
AboveZero = Parameter(validator=Number(gt=0))
NotNegative = Parameter(validator=Number(gte=0))


@attrs.frozen(kw_only=True)
class Settings:
    """How a sweep runs: the options of the command line.

    Attributes:
        space: TOML file of config paths and their values, e.g. model.rpe.0.k = {int = [1, 4]}; without it anchors K,
            hops k and random features r, as far as the config has them.
        num_samples: Number of trials; 16 by default, with --search grid all combinations.
        scheduler: What stops bad trials early: asha (successive halving), median (worse than the median so far), pbt
            (population based training: bad trials copy good ones and change), or none.
        search: How values are drawn: at random, by optuna from the trials so far, or every combination of a grid.
        cpus_per_trial: CPUs of each trial; below 1, trials share one.
        gpus_per_trial: GPUs of each trial; below 1, trials share one. By default one where there are any.
        max_concurrent: Most trials at a time; 0 for as many as fit.
        address: A running Ray cluster: auto, HOST:PORT, or ray://HOST:PORT; without it one is started on this machine.
        storage: Folder of the sweep, which every node of a cluster must see, or a URI such as s3://bucket/sweep; by
            default sweeps/CONFIG.
        resume: Go on with the sweep in --storage, or start it when there is none; the other options as it was started.
        time_budget: Seconds after which the sweep is interrupted; --resume goes on.
        metric: Validation metric to optimise, e.g. accuracy or loss; by default the data set's own.
        mode: Maximise or minimise the metric; by default what suits it.
        pareto: Minimise the time per epoch too, and show the Pareto front.
        seed: Seed of the search; the seed of training is the config's.
        data_root: Folder of data sets; without it $KDLGT_DATA, else a download.
        retries: How often a trial whose process dies is started again from its checkpoint.
        dashboard: Start Ray's dashboard too.
    """

    space: pathlib.Path | None = None
    num_samples: Annotated[int | None, AtLeastOne] = None
    scheduler: Scheduler = "asha"
    search: Search = "random"
    cpus_per_trial: Annotated[float, AboveZero] = 1.0
    gpus_per_trial: Annotated[float | None, NotNegative] = None
    max_concurrent: Annotated[int, NotNegative] = 0
    address: str | None = None
    storage: str | None = None
    resume: Annotated[bool, Flag] = False
    time_budget: Annotated[float | None, AboveZero] = None
    metric: str | None = None
    mode: Mode | None = None
    pareto: Annotated[bool, Flag] = False
    seed: Annotated[int, NotNegative] = 0
    data_root: pathlib.Path | None = None
    retries: Annotated[int, NotNegative] = 3
    dashboard: Annotated[bool, Flag] = False

    @property
    def threads(self) -> int:
        """CPU threads of a trial."""
        return max(int(self.cpus_per_trial), 1)


def number_of_trials(settings: Settings, space: Space) -> int:
    """How many trials there will be; search and scheduler must be able to work on the space.

    Raises:
        ArgumentError: they cannot; the message says what to change.
    """
    if settings.scheduler == "pbt":
        _require_mutable(settings, space)
    if settings.pareto and settings.search == "optuna" and settings.scheduler != "none":
        raise ArgumentError(
            f"--pareto --search optuna --scheduler {settings.scheduler}: optuna needs both objectives of complete "
            "trials; use --scheduler none, or --search random"
        )
    asked = settings.num_samples
    if settings.search != "grid":
        return DEFAULT_SAMPLES if asked is None else asked
    size = grid_size(space)
    if asked not in (None, size):
        raise ArgumentError(
            f"--num-samples {asked}; the grid has {size} combinations and --search grid tries each once: leave "
            "--num-samples out, or use --search random"
        )
    return size


def grid_size(space: Space) -> int:
    """Number of combinations of a space.

    Raises:
        ArgumentError: a range that is not finite, or not small.
    """
    size = 1
    for parameter in space.parameters:
        domain = parameter.domain
        if not isinstance(domain, Choice) and not (isinstance(domain, IntegerRange) and not domain.log):
            low, high = domain.probes
            raise ArgumentError(
                f"{parameter.path}: a grid needs single values; write {{choice = [{low}, ..., {high}]}}, or use "
                "--search random"
            )
        size *= len(grid_values(domain))
    return size


def grid_values(domain: Choice | IntegerRange) -> list[object]:
    """Every value of a finite domain, as a search engine sees it."""
    return list(domain.labels) if isinstance(domain, Choice) else list(range(domain.low, domain.high + 1))


def _require_mutable(settings: Settings, space: Space) -> None:
    if settings.search != "random":
        raise ArgumentError(
            f"--scheduler pbt --search {settings.search}: pbt draws its own samples; use --search random"
        )
    if not any(parameter.path in MUTABLE for parameter in space.parameters):
        raise ArgumentError(
            f"--scheduler pbt changes running trials, and nothing in the space can change in one; vary one of "
            f"{', '.join(MUTABLE)}, or use --scheduler asha"
        )
