"""Plans, folders, tables and pages, without Ray."""

from __future__ import annotations

import csv
import io
import math
import pathlib
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from rich.console import Console

from kdlgt.config import load_config
from kdlgt.errors import ArgumentError, ConfigError, RunFolderError
from kdlgt_tuning.files import SweepFolder
from kdlgt_tuning.objective import Objective
from kdlgt_tuning.outcome import TrialOutcome
from kdlgt_tuning.page import error_against_time, parallel_coordinates
from kdlgt_tuning.settings import Settings
from kdlgt_tuning.space import Space
from kdlgt_tuning.sweep import Plan, begin, finish, plan_sweep
from kdlgt_tuning.tables import live_table, print_outcomes, short_names, watching

pytestmark = pytest.mark.plugins
MakeConfigFile = Callable[..., pathlib.Path]
MakeOutcome = Callable[..., TrialOutcome]


@pytest.fixture
def plan(config_file: MakeConfigFile, tmp_path: pathlib.Path) -> Plan:
    return plan_sweep(config_file(), Settings(storage=str(tmp_path / "sweep")))


def sample_of(plan: Plan, k: int) -> dict[str, Any]:
    return {"model.rpe.0.max_anchors": 8, "model.rpe.0.k": k, "model.features.num_features": 16}


def trial(plan: Plan, name: str, k: int, score: float, status: Any = "finished", **changes: Any) -> TrialOutcome:
    sample = sample_of(plan, k)
    values = plan.job.space.decode(sample)
    given = {"score": score, "epoch": 3, "best_epoch": 2, "seconds_per_epoch": 0.5, **changes}
    return TrialOutcome(name=name, sample=sample, values=values, status=status, **given)


def test_a_plan_takes_the_data_sets_own_metric_and_the_default_space(plan: Plan) -> None:
    objective = plan.job.objective
    assert (objective.metric, objective.mode, objective.pareto) == ("accuracy", "max", False)
    assert [one.path for one in plan.job.space.parameters] == list(sample_of(plan, 1))
    assert plan.trials == 16
    assert plan.epochs == 3
    assert plan.config.train.threads == 1
    assert plan.config.data.prepare_workers == 1
    assert "sapd" in plan.job.plugins


def test_threads_follow_the_cpus_of_a_trial(config_file: MakeConfigFile) -> None:
    path = config_file()
    assert plan_sweep(path, Settings(cpus_per_trial=2.5)).config.train.threads == 2
    assert plan_sweep(path, Settings(cpus_per_trial=0.5)).config.train.threads == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "acuracy"}, r"loss, accuracy, f1. Did you mean 'accuracy'\?"),
        ({"search": "grid", "num_samples": 7}, "the grid has 80 combinations"),
        ({"scheduler": "pbt"}, "nothing in the space can change"),
        ({"scheduler": "pbt", "search": "optuna"}, "pbt draws its own samples"),
        ({"pareto": True, "search": "optuna"}, "use --scheduler none"),
    ],
)
def test_settings_that_do_not_work(settings: dict[str, Any], message: str, config_file: MakeConfigFile) -> None:
    with pytest.raises(ArgumentError, match=message):
        plan_sweep(config_file(), Settings(**settings))


def test_a_grid_needs_finite_domains(config_file: MakeConfigFile, tmp_path: pathlib.Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text("train.lr = {log = [1e-4, 1e-2]}")
    with pytest.raises(ArgumentError, match=r"train\.lr: a grid needs single values"):
        plan_sweep(config_file(), Settings(space=space, search="grid"))
    space.write_text('model.rpe.0.k = {int = [1, 4]}\nmodel.norm = {choice = ["layer", "rms"]}')
    assert plan_sweep(config_file(), Settings(space=space, search="grid")).trials == 8


def test_configs_that_do_not_work(config_file: MakeConfigFile) -> None:
    with pytest.raises(ConfigError, match="a trial is one process"):
        plan_sweep(config_file(extra="devices = 2\n"), Settings())


@pytest.mark.parametrize(("metric", "mode"), [("loss", "min"), ("f1", "max"), ("val_loss", "min")])
def test_other_metrics(metric: str, mode: str, config_file: MakeConfigFile) -> None:
    objective = plan_sweep(config_file(), Settings(metric=metric)).job.objective
    assert (objective.metric, objective.mode) == (metric.removeprefix("val_"), mode)


def test_a_sweep_is_never_overwritten(plan: Plan) -> None:
    begin(plan)
    with pytest.raises(RunFolderError, match="go on with --resume"):
        begin(plan)
    begin(attrs.evolve(plan, settings=attrs.evolve(plan.settings, resume=True)))
    other = attrs.evolve(plan, settings=attrs.evolve(plan.settings, resume=True, seed=7), trials=3)
    with pytest.raises(RunFolderError, match="num_samples: 16 there, 3 here; seed: 0 there, 7 here"):
        begin(other)


def test_a_folder_of_something_else_is_left_alone(plan: Plan) -> None:
    plan.folder.path.mkdir()
    (plan.folder.path / "thesis.tex").write_text("x")
    with pytest.raises(RunFolderError, match="holds no sweep"):
        begin(plan)
    assert [path.name for path in plan.folder.path.iterdir()] == ["thesis.tex"]


def test_a_uri_keeps_its_results_here(config_file: MakeConfigFile) -> None:
    plan = plan_sweep(config_file(), Settings(storage="s3://bucket/sweep"))
    assert plan.storage == "s3://bucket/sweep"
    assert plan.folder.path == pathlib.Path("sweeps/karate")


def test_what_a_sweep_leaves_behind(plan: Plan) -> None:
    trials = [
        trial(plan, "a", 1, 0.5),
        trial(plan, "b", 2, 0.75),
        trial(plan, "c", 3, 0.9, "stopped"),
        trial(plan, "d", 4, math.nan, "failed", epoch=0, error="k = 4, <no>"),
    ]
    finish(plan, trials)
    best = plan.folder.best.read_text()
    assert best.startswith("# The best of 4 trials (b, finished): val accuracy 0.75 at epoch 2.\n")
    assert load_config(plan.folder.best) == plan.job.config(sample_of(plan, 2))
    with plan.folder.results.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["trial"] for row in rows] == ["b", "a", "c", "d"]
    assert rows[0]["model.rpe.0.k"] == "2"
    assert rows[0]["pareto"] == "yes"
    assert rows[3]["error"] == "k = 4, <no>"
    page = plan.folder.report.read_text()
    assert page.count("Plotly.newPlot") >= 3
    assert "k = 4, &lt;no&gt;" in page
    assert 'src="http' not in page


def test_no_trial_has_a_score(plan: Plan) -> None:
    finish(plan, [trial(plan, "a", 1, math.nan, "failed", error="no")])
    assert not plan.folder.best.exists()
    assert "Plotly.newPlot" not in plan.folder.report.read_text()
    assert plan.folder.results.exists()


def test_a_broken_record(tmp_path: pathlib.Path) -> None:
    folder = SweepFolder(tmp_path)
    assert folder.read_record() is None
    folder.record.write_text("{")
    with pytest.raises(RunFolderError, match="is not JSON"):
        folder.read_record()


def test_the_front_over_time_with_anchors_as_symbols_and_features_as_colours(
    space: Space, objective: Objective, outcome: MakeOutcome
) -> None:
    trials = [outcome("a", 0.75, 1.0), outcome("b", 0.5, 2.0), outcome("c", 1.0, 3.0)]
    front, group = error_against_time(trials, space, objective).data
    assert list(front.x) == [1.0, 3.0]
    assert list(front.y) == [0.25, 0.0]
    assert group.name == "max_anchors = 8"
    assert list(group.marker.color) == [32, 32, 32]


def test_parallel_coordinates_have_an_axis_for_every_parameter(
    space: Space, objective: Objective, outcome: MakeOutcome
) -> None:
    [lines] = parallel_coordinates([outcome("a", 0.5)], space, objective).data
    labels = [dimension.label for dimension in lines.dimensions]
    assert labels == ["max_anchors", "num_features", "norm", "s/epoch", "val accuracy"]
    assert list(lines.dimensions[2].ticktext) == ["layer", "rms"]
    assert list(lines.dimensions[2].values) == [1]
    assert list(lines.dimensions[1].values) == [pytest.approx(math.log10(32))]


def test_short_names_tell_paths_apart() -> None:
    paths = ["model.rpe.0.k", "model.rpe.1.k", "train.lr", "model.k"]
    assert short_names(paths) == {
        "model.rpe.0.k": "0.k",
        "model.rpe.1.k": "1.k",
        "train.lr": "lr",
        "model.k": "model.k",
    }


def test_the_tables(space: Space, objective: Objective, outcome: MakeOutcome) -> None:
    console = Console(record=True, width=160, file=io.StringIO())
    trials = [outcome("a", 0.5), outcome("b", math.nan, math.nan, status="failed", error="no such k")]
    print_outcomes(console, trials, space, attrs.evolve(objective, pareto=True))
    console.print(live_table([*trials, outcome("c", 0.1, status="running")], space, objective, 5))
    text = console.export_text()
    for words in ("the best of 2 trials (1 finished, 1 failed)", "trials that failed", "no such k", "Pareto front"):
        assert words in text
    assert "5 trials: 1 finished, 1 failed, 1 running" in text


def test_elsewhere_than_on_a_terminal_each_trial_has_one_line(
    space: Space, objective: Objective, outcome: MakeOutcome, capsys: pytest.CaptureFixture[str]
) -> None:
    with watching(Console(width=160), space, objective, 2) as watch:
        watch([outcome("a", 0.25, status="running")])
        watch([outcome("a", 0.5)])
        watch([outcome("a", 0.5), outcome("b", math.nan, status="lost", error="died")])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "1/2  a  max_anchors=8, num_features=32, norm=rms  finished: val accuracy 0.5",
        "2/2  b  max_anchors=8, num_features=32, norm=rms  lost: died",
    ]
