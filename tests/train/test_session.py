from __future__ import annotations

import csv
import json
import pathlib
import shutil
from collections.abc import Callable

import attrs
import pytest
import torch

from kdlgt.config import Config, load_config
from kdlgt.errors import CheckpointError, ConfigError, RunFolderError
from kdlgt.registry import Registry
from kdlgt.train import EpochRecord, RunFolder, evaluate_run, predict_run, train_run, train_seeds
from kdlgt.train.compare import compare_runs

MakeConfig = Callable[..., Config]
FILES = {
    "best.ckpt", "config.toml", "environment.json", "health.json", "last.ckpt", "metrics.csv", "predictions.csv",
    "report.html", "result.json", "split.json", "tensorboard",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, karate_config: MakeConfig, registry: Registry) -> RunFolder:
    folder = tmp_path_factory.mktemp("runs") / "karate"
    train_run(karate_config(epochs=6, seed=5), folder, registry=registry)
    return RunFolder(folder)


def test_the_run_folder_is_complete(run: RunFolder) -> None:
    assert {path.name for path in run.path.iterdir()} == FILES
    assert list(run.tensorboard.iterdir())


@pytest.mark.parametrize(
    ("attention", "exact", "words"),
    [
        ({"mode": "linear"}, 0, "linear"),
        ({"mode": "exact"}, 1, "exact"),
        ({"mode": "auto", "auto_threshold": 34}, 1, "auto, exact on 1 of 1 graphs"),
        ({"mode": "auto", "auto_threshold": 33}, 0, "auto, exact on 0 of 1 graphs"),
    ],
)
def test_the_result_says_which_graphs_attend_exactly(
    attention: dict[str, object],
    exact: int,
    words: str,
    tmp_path: pathlib.Path,
    karate_config: MakeConfig,
    registry: Registry,
) -> None:
    config = karate_config(epochs=1, model={"attention": attention})
    result = train_run(config, tmp_path / "run", registry=registry)
    assert (result.exact_graphs, result.graphs, result.attention_in_words) == (exact, 1, words)
    assert words in (tmp_path / "run" / "report.html").read_text()


def test_the_environment_names_the_distribution_of_every_component(run: RunFolder) -> None:
    found = run.read_components()
    assert set(found) == {"dataset karate", "feature_map favor+"}
    assert all(owner.startswith("kdlgt ") for owner in found.values())


def test_a_run_whose_plugin_is_gone_says_which(run: RunFolder, tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run.path, copy)
    folder = RunFolder(copy)
    folder.write_text(folder.config, folder.config.read_text().replace('name = "favor+"', 'name = "sketch"'))
    folder.write_environment(0, {"feature_map sketch": "kdlgt-sketch 0.3.0", "dataset karate": "kdlgt 0.1.0"})
    with pytest.raises(RunFolderError, match=r"used 'sketch' of kdlgt-sketch 0\.3\.0; install that\. .*unknown"):
        evaluate_run(copy)


def test_another_feature_map_is_drawn_for_trained_weights(run: RunFolder) -> None:
    more = evaluate_run(run.path, overrides=["model.features.num_features=7"])
    assert set(more["test"]) == set(evaluate_run(run.path)["test"])
    with pytest.raises(CheckpointError, match=r"with model\.hidden=16, which changes what was trained"):
        evaluate_run(run.path, overrides=["model.hidden=16"])


def test_a_folder_of_runs_stands_for_its_runs(run: RunFolder, tmp_path: pathlib.Path) -> None:
    for name in ("linear", "other"):
        shutil.copytree(run.path, tmp_path / "demo" / name)
    (row,) = compare_runs([tmp_path / "demo"])
    assert len(row.seeds) == 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError, match=r"holds no run .* give a folder that kdlgt train wrote"):
        compare_runs([tmp_path / "empty"])


def test_a_run_named_twice_counts_once(run: RunFolder) -> None:
    (row,) = compare_runs([run.path, run.path, run.path / ".." / run.path.name])
    assert len(row.seeds) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "is not the result of a run"),
        ('{"test": {"accuracy": 1}}', "lacks attention, data"),
        ("{", "not JSON"),
    ],
)
def test_a_damaged_result_is_named(run: RunFolder, tmp_path: pathlib.Path, text: str, message: str) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    RunFolder(tmp_path / "run").result.write_text(text)
    with pytest.raises(RunFolderError, match=message):
        compare_runs([tmp_path / "run"])


def test_the_config_of_the_folder_repeats_the_run(run: RunFolder, tmp_path: pathlib.Path, registry: Registry) -> None:
    result = train_run(load_config(run.config, registry=registry), tmp_path / "again", registry=registry)
    assert result.test == run.read_result()["test"]
    a, b = (torch.load(path / "last.ckpt", weights_only=True) for path in (run.path, tmp_path / "again"))
    assert all(torch.equal(tensor, b["model"][name]) for name, tensor in a["model"].items())


def test_the_health_of_linear_attention_is_in_the_folder(run: RunFolder) -> None:
    heads = json.loads(run.health.read_text())["heads"]
    assert [(head["layer"], head["head"]) for head in heads] == [(0, 0), (0, 1)]
    assert all(0 < head["total_variation"] < 1 for head in heads)
    page = run.report.read_text()
    assert "<h2>Health</h2>" in page
    assert f"{heads[0]['effective_size']:.1f} of {heads[0]['num_features']}" in page


def test_exact_attention_has_no_health_report(karate_config: MakeConfig, tmp_path: pathlib.Path) -> None:
    train_run(karate_config({"attention": "exact"}, epochs=1), tmp_path / "run")
    assert not (tmp_path / "run" / "health.json").exists()


def test_metrics_predictions_and_result_agree(run: RunFolder) -> None:
    result = run.read_result()
    best = next(row for row in run.read_metrics()[1] if row["epoch"] == result["best_epoch"])
    assert best["val_accuracy"] == pytest.approx(result["val"]["accuracy"])
    with run.predictions.open() as file:
        test = [row for row in csv.DictReader(file) if row["part"] == "test"]
    hits = sum(row["target"] == row["prediction"] for row in test)
    assert hits / len(test) == pytest.approx(result["test"]["accuracy"])
    split = json.loads(run.split.read_text())
    assert [int(row["node"]) for row in test] == split["test"]
    assert split["seed"] == 5


def test_evaluation_repeats_the_result_and_the_exact_twin_has_the_same_weights(run: RunFolder) -> None:
    again = evaluate_run(run.path)
    assert again["test"] == run.read_result()["test"]
    exact = evaluate_run(run.path, overrides=["model.attention=exact"])
    assert set(exact) == {"train", "val", "test"}
    assert 0.0 <= exact["test"]["accuracy"] <= 1.0


def test_linear_attention_predicts_nearly_what_exact_attention_does(run: RunFolder, tmp_path: pathlib.Path) -> None:
    def probabilities(path: pathlib.Path, *overrides: str) -> torch.Tensor:
        predict_run(run.path, path, overrides=overrides)
        with path.open() as file:
            return torch.tensor(
                [[float(row[f"probability_{label}"]) for label in range(4)] for row in csv.DictReader(file)]
            )

    linear, exact = probabilities(tmp_path / "a.csv"), probabilities(tmp_path / "b.csv", "model.attention=exact")
    dense = probabilities(tmp_path / "c.csv", "model.attention=exact", "model.attention.exact=dense")
    assert torch.allclose(exact, dense, atol=1e-5)
    assert 0 < float((linear - exact).abs().max()) < 0.3


def test_predictions_of_a_run_are_those_of_its_folder(run: RunFolder, tmp_path: pathlib.Path) -> None:
    assert predict_run(run.path, tmp_path / "deep" / "out.csv") == 34
    assert (tmp_path / "deep" / "out.csv").read_bytes() == run.predictions.read_bytes()


def test_a_checkpoint_that_does_not_fit_the_changed_config_is_named(run: RunFolder) -> None:
    with pytest.raises(CheckpointError, match=r"best\.ckpt does not fit this model"):
        evaluate_run(run.path, overrides=["model.hidden=16"])


def test_no_run_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(RunFolderError, match="no such run folder"):
        evaluate_run(tmp_path / "nowhere")


def test_the_report_is_self_contained_and_shows_the_numbers(run: RunFolder) -> None:
    page = run.report.read_text()
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")
    assert page.count("<svg") == 2
    assert f"{run.read_result()['test']['accuracy']:.4f}" in page
    assert "train_loss" not in page.partition("<svg")[0]
    assert "precision" in page


def test_seeds_make_a_mean_and_a_deviation(
    tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry
) -> None:
    config = karate_config(epochs=2, seed=3)
    summary = train_seeds(config, tmp_path / "runs", 2, registry=registry)
    singles = [RunFolder(tmp_path / "runs" / f"seed-{seed}").read_result()["test"]["accuracy"] for seed in (3, 4)]
    assert summary["accuracy"].mean == pytest.approx(sum(singles) / 2)
    assert summary["accuracy"].deviation == pytest.approx(abs(singles[0] - singles[1]) / 2**0.5)
    tree = json.loads((tmp_path / "runs" / "result.json").read_text())
    assert tree["test"]["accuracy"] == summary["accuracy"].mean
    (row,) = compare_runs([tmp_path / "runs"])
    assert row.seeds == (3, 4)
    assert row.test["accuracy"] == summary["accuracy"]


def test_comparison_keeps_different_configs_apart(
    run: RunFolder, tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry
) -> None:
    train_run(karate_config({"attention": "exact"}, epochs=2), tmp_path / "exact", registry=registry)
    rows = compare_runs([run.path, tmp_path / "exact"])
    assert [(row.attention, row.rpe, row.data) for row in rows] == [
        ("linear", "none", "karate"),
        ("exact", "none", "karate"),
    ]
    with pytest.raises(RunFolderError, match="nothing to compare"):
        compare_runs([])


def test_the_listener_hears_every_epoch(tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry) -> None:
    heard: list[EpochRecord] = []
    train_run(karate_config(epochs=3), tmp_path / "run", registry=registry, listener=heard.append)
    assert [(record.epoch, record.epochs) for record in heard] == [(1, 3), (2, 3), (3, 3)]
    assert heard[0].best
    assert heard[0].monitor == "val_accuracy"


def test_half_precision_needs_a_gpu(tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry) -> None:
    with pytest.raises(ConfigError, match=r"train\.precision = '16' needs a GPU"):
        train_run(karate_config(precision="16"), tmp_path / "run", registry=registry)
    assert not (tmp_path / "run").exists()


def test_one_graph_is_not_shared_between_processes(
    tmp_path: pathlib.Path, karate_config: MakeConfig, registry: Registry
) -> None:
    with pytest.raises(ConfigError, match=r"train\.devices = 2, but karate is one graph"):
        train_run(karate_config(devices=2), tmp_path / "run", registry=registry)


def test_class_weights_train(tmp_path: pathlib.Path, graphs_config: MakeConfig, registry: Registry) -> None:
    plain = train_run(graphs_config(epochs=1), tmp_path / "plain", registry=registry)
    weighted = train_run(graphs_config(epochs=1, class_weights=True), tmp_path / "weighted", registry=registry)
    assert attrs.evolve(plain, seconds=0).epochs == weighted.epochs
    losses = [RunFolder(tmp_path / name).read_metrics()[1][0]["train_loss"] for name in ("plain", "weighted")]
    assert losses[0] != losses[1]
