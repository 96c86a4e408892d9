"""The search itself, on Ray Tune; the only file that imports Ray."""

from __future__ import annotations

import logging
import os
import pathlib
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler, MedianStoppingRule, PopulationBasedTraining, TrialScheduler
from ray.tune.search import BasicVariantGenerator, SearchAlgorithm, Searcher

from kdlgt.data.cache import cache_dir
from kdlgt.errors import ArgumentError
from kdlgt_tuning.domains import Choice, Domain, IntegerRange
from kdlgt_tuning.outcome import TrialOutcome, outcome_from_metrics
from kdlgt_tuning.settings import MUTABLE, Settings, grid_values
from kdlgt_tuning.sweep import STATE, Plan
from kdlgt_tuning.trial import Job, Metrics, attempt_trial

Watch = Callable[[Sequence[TrialOutcome]], None]
OBJECT_STORE_BYTES = 200 * 2**20  # trials read their data from disk; only configs travel
KEPT_CHECKPOINTS = 3
LEAST_EPOCHS = 5  # the first epochs say little
LOGGED = {
    "ray.tune": logging.ERROR,
    "ray.train": logging.ERROR,
    "ray.tune.execution.tune_controller": logging.CRITICAL,  # what happens to a trial is in the table
    "ray.tune.tune": logging.CRITICAL,  # so is what is left after Ctrl-C
}
#: Read by Ray, here and in the workers.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a trial without GPUs sees none
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output prints its configuration even when told to be silent
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths in configs keep their meaning
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # trials write their own run folders
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a failed trial reports its error and no score
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",  # a stopped trial has so long to leave its worker to the next one
    "TUNE_GLOBAL_CHECKPOINT_S": "1",  # what a killed sweep repeats
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


def search(plan: Plan, watch: Watch) -> tuple[TrialOutcome, ...]:
    """Run the trials, or with ``--resume`` those that an interrupted sweep left.

    Ctrl-C and the time budget end it after a snapshot; what they left has the status ``unfinished``.

    Args:
        plan: what to search, and how.
        watch: called with all trials after each report.

    Raises:
        ArgumentError: the cluster has not what one trial asks for; no cluster at the address.
    """
    with connected(plan.settings):
        require_resources(plan.settings)
        follow = Follow(plan.job, plan.settings.time_budget, watch)
        token = _FOLLOW.set(follow)
        try:
            results = _tuner(plan).fit()
        finally:
            _FOLLOW.reset(token)
        return follow.outcomes or tuple(_outcome_of_result(plan.job, results[index]) for index in range(len(results)))


@contextmanager
def connected(settings: Settings) -> Iterator[None]:
    """A connection to a cluster; without an address one of this process's own, which ends with it.

    Raises:
        ArgumentError: there is no cluster at the address.
    """
    with _environment(QUIET):
        try:
            ray.init(
                address=settings.address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": worker_variables()},
                **({} if settings.address else own_cluster(settings)),
            )
        except ConnectionError as error:
            raise ArgumentError(
                f"--address {settings.address}: no Ray cluster answers there ({error}); start one with `ray start "
                "--head`, or leave --address out"
            ) from error
        for name, level in LOGGED.items():
            logging.getLogger(name).setLevel(level)
        try:
            yield
        finally:
            ray.shutdown()


def own_cluster(settings: Settings) -> dict[str, Any]:
    """How to start a cluster on this machine."""
    return {"include_dashboard": settings.dashboard, "object_store_memory": OBJECT_STORE_BYTES}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def worker_variables() -> dict[str, str]:
    """Environment variables that workers take over: kdlgt's own, where structure is cached, where modules are found."""
    chosen = {name: value for name, value in os.environ.items() if name.startswith("KDLGT_") or name == "PYTHONPATH"}
    return {**chosen, "KDLGT_CACHE": str(cache_dir().absolute()), **QUIET}


def require_resources(settings: Settings) -> None:
    """Refuse what no node has: a trial that fits nowhere would wait for ever.

    Raises:
        ArgumentError: says what was asked for and what there is.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    total = ray.cluster_resources()
    there = f"{total.get('CPU', 0):g} CPUs and {total.get('GPU', 0):g} GPUs in {len(nodes)} node(s)"
    for name, amount in (("CPU", settings.cpus_per_trial), ("GPU", settings.gpus_per_trial or 0.0)):
        most = max((node.get(name, 0.0) for node in nodes), default=0.0)
        if amount > most:
            raise ArgumentError(
                f"--{name.lower()}s-per-trial {amount:g}; the cluster has {there}, at most {most:g} {name}s in one "
                "node: ask for less, or give the --address of a larger cluster"
            )


def _tuner(plan: Plan) -> tune.Tuner:
    """The sweep in storage, when it is to be resumed and there is one, else a new one."""
    trainable = tune.with_resources(tune.with_parameters(_train, job=plan.job), _resources(plan.settings))
    experiment = f"{plan.storage}/{STATE}"
    if plan.settings.resume and tune.Tuner.can_restore(experiment):
        return tune.Tuner.restore(experiment, trainable, resume_unfinished=True)
    return _new_tuner(trainable, plan)


def _resources(settings: Settings) -> dict[str, float]:
    gpus = settings.gpus_per_trial
    if gpus is None:
        gpus = min(ray.cluster_resources().get("GPU", 0.0), 1.0)
    return {"cpu": settings.cpus_per_trial, "gpu": gpus}


def _new_tuner(trainable: Any, plan: Plan) -> tune.Tuner:
    settings = plan.settings
    grid = settings.search == "grid"
    space = {parameter.path: ray_domain(parameter.domain, grid=grid) for parameter in plan.job.space.parameters}
    algorithm = _search_algorithm(plan, space)
    return tune.Tuner(
        trainable,
        # A search algorithm brings its own space.
        param_space=space if isinstance(algorithm, BasicVariantGenerator) else None,
        tune_config=tune.TuneConfig(
            num_samples=1 if grid else plan.trials,
            search_alg=algorithm,
            scheduler=_scheduler(plan),
            max_concurrent_trials=settings.max_concurrent or None,
            reuse_actors=True,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=STATE,
            storage_path=plan.storage,
            failure_config=tune.FailureConfig(max_failures=settings.retries),
            checkpoint_config=tune.CheckpointConfig(num_to_keep=KEPT_CHECKPOINTS),
            callbacks=[Courier()],
            verbose=0,
        ),
    )


def _trial_name(trial: Trial) -> str:
    return str(trial.trial_id)


def ray_domain(domain: Domain, *, grid: bool = False) -> Any:
    """The same set of values in Ray's terms; its integer ranges leave out their upper end."""
    if grid and isinstance(domain, Choice | IntegerRange):
        return tune.grid_search(grid_values(domain))
    if isinstance(domain, Choice):
        return tune.choice(list(domain.labels))
    if isinstance(domain, IntegerRange):
        return (tune.lograndint if domain.log else tune.randint)(domain.low, domain.high + 1)
    return (tune.loguniform if domain.log else tune.uniform)(domain.low, domain.high)


def _search_algorithm(plan: Plan, space: Mapping[str, Any]) -> Searcher | SearchAlgorithm:
    settings, objective = plan.settings, plan.job.objective
    if settings.search != "optuna":
        return BasicVariantGenerator(random_state=settings.seed)
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return OptunaSearch(
        space=OptunaSearch.convert_search_space(dict(space)),
        metric=["score", "seconds_per_epoch"] if objective.pareto else "score",
        mode=[objective.mode, "min"] if objective.pareto else objective.mode,
        seed=settings.seed,
    )


def _scheduler(plan: Plan) -> TrialScheduler | None:
    """What stops bad trials; time is counted in epochs, and the report after the last evaluation must pass too."""
    grace = min(max(plan.epochs // 10, LEAST_EPOCHS), plan.epochs)
    common: dict[str, Any] = {"time_attr": "epoch", "metric": "score", "mode": plan.job.objective.mode}
    match plan.settings.scheduler:
        case "asha":
            return AsyncHyperBandScheduler(max_t=plan.epochs + 1, grace_period=grace, reduction_factor=3, **common)
        case "median":
            return MedianStoppingRule(grace_period=grace, min_samples_required=3, **common)
        case "pbt":
            mutable = {one.path: ray_domain(one.domain) for one in plan.job.space.parameters if one.path in MUTABLE}
            return PopulationBasedTraining(
                perturbation_interval=max(plan.epochs // 10, 1),
                hyperparam_mutations=mutable,
                require_attrs=False,
                **common,
            )
        case "none":
            return None


def _train(sample: dict[str, Any], job: Job) -> None:
    """A trial in a worker: restore, train with a report per epoch, report the end."""
    # Not the trial's own folder: Ray copies that while files in it come and go.
    with tempfile.TemporaryDirectory(prefix="kdlgt-trial-") as parent:
        folder = pathlib.Path(parent) / "run"
        checkpoint = tune.get_checkpoint()
        if checkpoint is not None:
            checkpoint.to_directory(folder)
        node = ray.get_runtime_context().get_node_id()

        def report(metrics: Metrics) -> None:
            tune.report({**metrics, "node": node}, checkpoint=tune.Checkpoint.from_directory(folder))

        metrics = attempt_trial(job, sample, folder, report)
        if metrics["status"] == "finished":
            report(metrics)
        else:
            tune.report(metrics)


class Follow:
    """What this process knows of the trials while they run; ends the sweep when its time is over.

    Args:
        job: what all trials share.
        budget: seconds, or ``None``.
        watch: called with all trials after each report.
    """

    def __init__(self, job: Job, budget: float | None, watch: Watch) -> None:
        self.job, self.watch = job, watch
        self.deadline = None if budget is None else time.monotonic() + budget
        self.outcomes: tuple[TrialOutcome, ...] = ()

    def update(self, trials: Sequence[Trial]) -> None:
        """Read the trials, and show them."""
        self.outcomes = tuple(_outcome_of_trial(self.job, trial) for trial in trials)
        self.watch(self.outcomes)

    def obey_budget(self) -> None:
        """Interrupt as Ctrl-C does: Tune's own budget would mark unfinished trials as done."""
        if (
            self.deadline is not None
            and time.monotonic() > self.deadline
            and callable(signal.getsignal(signal.SIGUSR1))
        ):
            self.deadline = None
            os.kill(os.getpid(), signal.SIGUSR1)


#: The sweep of this process. Ray pickles callbacks and restores copies of them, which find it here.
_FOLLOW: ContextVar[Follow | None] = ContextVar("follow", default=None)


class Courier(tune.Callback):
    """Hands what Ray tells to the :class:`Follow` of this process."""

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        follow = _FOLLOW.get()
        if follow is not None:
            follow.obey_budget()

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        follow = _FOLLOW.get()
        if follow is not None:
            follow.update(trials)


def _outcome_of_trial(job: Job, trial: Trial) -> TrialOutcome:
    metrics = dict(trial.last_result or {})
    changes = _final_status(trial, metrics)
    if trial.checkpoint is not None:
        changes["folder"] = trial.checkpoint.path
    return outcome_from_metrics(trial.trial_id, trial.config, job.space.decode(trial.config), metrics, **changes)


def _final_status(trial: Trial, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The status of a trial that did not get to say it itself."""
    if trial.status == Trial.ERROR:
        return lost(trial.get_error())
    if metrics.get("status") in ("finished", "failed", "out of memory"):
        return {}
    if trial.status == Trial.TERMINATED:
        return {"status": "stopped"}
    return {"status": "running" if trial.status == Trial.RUNNING else "unfinished"}


def lost(error: BaseException | None) -> dict[str, Any]:
    """What to say of a trial whose process died again and again."""
    text = " ".join(str(error).split())
    memory = isinstance(error, ray.exceptions.OutOfMemoryError) or "OOM" in text or "memory" in text.lower()
    return {"status": "out of memory" if memory else "lost", "error": f"its process died: {text[:300]}"}


def _outcome_of_result(job: Job, result: tune.Result) -> TrialOutcome:
    """Where the trials were followed by another process, as under ``ray://``."""
    metrics, sample = dict(result.metrics or {}), dict(result.config or {})
    changes = {} if result.error is None else lost(result.error)
    if metrics.get("status") == "running":
        changes = {"status": "stopped", **changes}
    folder = "" if result.checkpoint is None else result.checkpoint.path
    name = str(metrics.get("trial_id", pathlib.PurePosixPath(result.path).name))
    return outcome_from_metrics(name, sample, job.space.decode(sample), metrics, folder=folder, **changes)
