"""Real sweeps, each in a process of its own as a person starts it."""

from __future__ import annotations

import csv
import importlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from kdlgt.config import load_config
from kdlgt.errors import ArgumentError
from kdlgt.train import train_run
from kdlgt_tuning.domains import Choice, IntegerRange, RealRange
from kdlgt_tuning.settings import Settings

pytest.importorskip("ray", reason="ray comes with the extra `tune`")
ray_search = importlib.import_module("kdlgt_tuning.ray_search")
pytestmark = [pytest.mark.plugins, pytest.mark.timeout(900)]
MakeConfigFile = Callable[..., pathlib.Path]
Start = Callable[..., "subprocess.Popen[str]"]
SCRIPT = pathlib.Path(__file__).parents[2] / "tuning" / "sweep.py"
SPACE = "model.rpe.0.k = {int = [1, 3]}\nmodel.dropout = {float = [0.0, 0.5]}\n"
PATIENCE = 400


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Start]:
    """Start a sweep; what a test leaves running is ended."""
    space = tmp_path / "space.toml"
    space.write_text(SPACE)
    processes: list[subprocess.Popen[str]] = []

    def begin(config: pathlib.Path, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-u", str(SCRIPT), str(config), "--space", str(space)]
        command += ["--storage", str(tmp_path / "sweep"), *options]
        environment = {**os.environ, "KDLGT_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
        log = (tmp_path / "errors.txt").open("a")
        processes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=tmp_path)
        )
        log.close()
        return processes[-1]

    yield begin
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def results(folder: pathlib.Path) -> list[dict[str, str]]:
    with (folder / "sweep" / "results.csv").open() as file:
        return list(csv.DictReader(file))


def metrics(run_folder: pathlib.Path | str) -> list[str]:
    return (pathlib.Path(run_folder) / "metrics.csv").read_text().splitlines()


def wait_for(what: Callable[[], Any]) -> Any:
    """Whatever comes out true."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"nothing happened in {PATIENCE} s")


def checkpoints(folder: pathlib.Path) -> list[pathlib.Path]:
    """Complete checkpoints of all trials, in order of time."""
    found = (folder / "sweep" / "ray").glob("*/checkpoint_*/metrics.csv")
    return sorted((path.parent for path in found), key=lambda path: path.name)


def read_until(process: subprocess.Popen[str], start: str) -> str:
    """The first line that starts so."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(start):
            return line
    raise AssertionError(f"the sweep ended before {start!r}")


def test_a_sweep_ends_with_a_config_that_repeats_its_score(
    start: Start, config_file: MakeConfigFile, tmp_path: pathlib.Path
) -> None:
    process = start(config_file(), "--num-samples", "3")
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    rows = results(tmp_path)
    assert len(rows) == 3
    assert {row["status"] for row in rows} <= {"finished", "stopped"}
    assert rows[0]["status"] == "finished"
    assert f"kdlgt train {tmp_path / 'sweep' / 'best.toml'}" in output
    assert "usage" not in output.lower()
    assert (tmp_path / "errors.txt").read_text() == ""
    again = train_run(load_config(tmp_path / "sweep" / "best.toml"), tmp_path / "again")
    assert float(rows[0]["val_accuracy"]) == again.val["accuracy"]
    assert list((tmp_path / "cache").rglob("*.safetensors"))


NODES = [{"CPU": 2.0, "GPU": 1.0}, {"CPU": 8.0}, {"CPU": 4.0, "GPU": 1.0}]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"gpus_per_trial": 2.0},
            "--gpus-per-trial 2; the cluster has 14 CPUs and 2 GPUs in 3 node(s), at most 1 GPUs",
        ),
        (
            {"cpus_per_trial": 9.0},
            "--cpus-per-trial 9; the cluster has 14 CPUs and 2 GPUs in 3 node(s), at most 8 CPUs",
        ),
    ],
)
def test_a_trial_that_no_node_holds_is_refused(
    asked: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for ever, even where all nodes together have enough."""
    dead = {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 64.0}}
    monkeypatch.setattr(ray_search.ray, "nodes", lambda: [dead, *({"Alive": True, "Resources": one} for one in NODES)])
    monkeypatch.setattr(ray_search.ray, "cluster_resources", lambda: {"CPU": 14.0, "GPU": 2.0})
    with pytest.raises(ArgumentError, match=re.escape(message)):
        ray_search.require_resources(Settings(**asked))
    ray_search.require_resources(Settings(cpus_per_trial=8.0))
    ray_search.require_resources(Settings(gpus_per_trial=0.5))


def test_domains_keep_both_ends() -> None:
    assert {ray_search.ray_domain(IntegerRange(1, 3)).sample() for _ in range(200)} == {1, 2, 3}
    assert {ray_search.ray_domain(IntegerRange(1, 3, log=True)).sample() for _ in range(300)} == {1, 2, 3}
    assert ray_search.ray_domain(Choice((8, [1]))).categories == [8, "[1]"]
    assert ray_search.ray_domain(Choice((8, 16)), grid=True) == {"grid_search": [8, 16]}
    assert 0.1 <= ray_search.ray_domain(RealRange(0.1, 0.2, log=True)).sample() <= 0.2


def test_workers_take_over_the_variables_of_kdlgt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDLGT_BLOCK_PLUGINS", "edge")
    monkeypatch.setenv("KDLGT_CACHE", "near")
    monkeypatch.setenv("SECRET", "x")
    variables = ray_search.worker_variables()
    assert variables["KDLGT_BLOCK_PLUGINS"] == "edge"
    assert variables["KDLGT_CACHE"] == str(pathlib.Path("near").absolute())
    assert "SECRET" not in variables


@pytest.mark.parametrize(
    ("error", "status"),
    [("Task was killed due to the node running low on memory (OOM)", "out of memory"), ("The actor died", "lost")],
)
def test_a_process_that_died_again_and_again(error: str, status: str) -> None:
    assert ray_search.lost(RuntimeError(error)) == {"status": status, "error": f"its process died: {error}"}


@pytest.mark.slow
def test_a_killed_sweep_resumes_without_repeating_finished_trials(
    start: Start, config_file: MakeConfigFile, tmp_path: pathlib.Path
) -> None:
    options = ["--num-samples", "4", "--max-concurrent", "1", "--scheduler", "none"]
    process = start(config_file(epochs=15), *options)
    first = read_until(process, "1/4").split()[1]
    time.sleep(2.5)  # snapshots are a second apart
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep" / "ray" / first).rglob("result.json")}
    assert before
    again = start(config_file(epochs=15), *options, "--resume")
    output, _ = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, output
    rows = results(tmp_path)
    assert [row["status"] for row in rows] == ["finished"] * 4
    assert first in {row["trial"] for row in rows}
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_a_trial_whose_process_is_killed_goes_on_from_its_checkpoint(
    start: Start, config_file: MakeConfigFile, tmp_path: pathlib.Path
) -> None:
    process = start(config_file(epochs=60), "--num-samples", "1")
    before = metrics(wait_for(lambda: [path for path in checkpoints(tmp_path) if path.name >= "checkpoint_000004"])[0])
    assert len(before) >= 5
    workers = [child for child in psutil.Process(process.pid).children(recursive=True) if is_trial(child)]
    assert len(workers) == 1
    workers[0].kill()
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    [row] = results(tmp_path)
    assert row["status"] == "finished"
    assert (tmp_path / "errors.txt").read_text() == ""
    after = metrics(row["run_folder"])
    assert len(after) == 61
    assert after[: len(before)] == before  # with the seconds that each epoch took: they were not run again


def is_trial(process: psutil.Process) -> bool:
    try:
        return any("ImplicitFunc" in part or "_train" in part for part in process.cmdline()[:1])
    except psutil.Error:
        return False


@pytest.mark.slow
def test_ctrl_c_leaves_what_there_is_and_resume_finishes_it(
    start: Start, config_file: MakeConfigFile, tmp_path: pathlib.Path
) -> None:
    options = ["--num-samples", "3", "--max-concurrent", "1", "--scheduler", "none"]
    process = start(config_file(epochs=20), *options)
    read_until(process, "1/3")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, output
    assert "of 3 trials are left; go on with the same command and --resume" in output
    assert "unfinished" in {row["status"] for row in results(tmp_path)} or len(results(tmp_path)) < 3
    again = start(config_file(epochs=20), *options, "--resume")
    output, _ = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, output
    assert [row["status"] for row in results(tmp_path)] == ["finished"] * 3
    assert (tmp_path / "errors.txt").read_text() == ""


@pytest.mark.slow
def test_when_its_time_is_over_a_sweep_can_be_resumed(
    start: Start, config_file: MakeConfigFile, tmp_path: pathlib.Path
) -> None:
    options = ["--num-samples", "2", "--scheduler", "none"]
    process = start(config_file(epochs=5), *options, "--time-budget", "1")
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    assert "2 of 2 trials are left" in output
    again = start(config_file(epochs=5), *options, "--resume")
    output, _ = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, output
    assert [row["status"] for row in results(tmp_path)] == ["finished"] * 2


@pytest.mark.slow
def test_a_trial_that_fails_in_its_config_leaves_the_others_alone(
    start: Start, config_file: MakeConfigFile, tmp_path: pathlib.Path
) -> None:
    space = tmp_path / "space.toml"
    space.write_text("model.hidden = {choice = [8, 12]}\nmodel.heads = {choice = [2, 8]}\n")
    process = start(config_file(), "--search", "grid", "--scheduler", "none")
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    rows = results(tmp_path)
    assert [row["status"] for row in rows] == ["finished"] * 3 + ["failed"]
    assert "model.heads = 8; allowed: a divisor of hidden = 12" in rows[3]["error"]
    assert "allowed: a divisor of hidden = 12" in " ".join(output.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [["--scheduler", "pbt"], ["--scheduler", "median"], ["--search", "optuna"]],
    ids=lambda options: options[1],
)
def test_other_ways_to_search(
    options: list[str], start: Start, config_file: MakeConfigFile, tmp_path: pathlib.Path
) -> None:
    process = start(config_file(epochs=6), "--num-samples", "4", *options)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    rows = results(tmp_path)
    assert len(rows) == 4
    assert {row["error"] for row in rows} == {""}
    assert (tmp_path / "errors.txt").read_text() == ""
    assert rows[0]["status"] == "finished"


@pytest.mark.slow
def test_two_nodes_with_fractional_resources(start: Start, config_file: MakeConfigFile, tmp_path: pathlib.Path) -> None:
    from ray.cluster_utils import Cluster

    options: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=options)
    try:
        cluster.add_node(**{name: value for name, value in options.items() if name != "include_dashboard"})
        process = start(
            config_file(),
            "--num-samples",
            "6",
            "--cpus-per-trial",
            "0.5",
            "--address",
            cluster.address,
            "--scheduler",
            "none",
        )
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, output
    finally:
        cluster.shutdown()
    assert [row["status"] for row in results(tmp_path)] == ["finished"] * 6
    [state] = (tmp_path / "sweep" / "ray").glob("experiment_state*.json")
    assert len(set(re.findall(r'\\+"node\\+": \\+"(\w+)', state.read_text()))) == 2
