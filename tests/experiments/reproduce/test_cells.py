"""Cells of Table 2, and the process that they run in."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import attrs
import pytest

from kdlgt.errors import TrainingError
from kdlgt.experiments.reproduce import cells, workers
from kdlgt.experiments.reproduce.cells import Cell, CellResult, finished, train_cell, write_result

pytestmark = pytest.mark.plugins


@pytest.fixture
def cell(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, tiny_graphs: Any) -> Cell:
    monkeypatch.setattr(cells, "data_set", lambda name: tiny_graphs)
    return Cell(system="gcn", data="distance", seed=0, budget="small", folder=tmp_path)


def test_a_cell_trains_and_is_found_again(cell: Cell) -> None:
    result = train_cell(cell)
    assert (result.status, result.metric) == ("trained", "accuracy")
    assert result.test is not None
    assert 0 <= result.test <= 1
    assert result.parameters > 0
    assert result.peak > 0
    assert (cell.run_dir / "result.json").is_file()
    write_result(cell, result)
    assert finished(cell) == result


def test_other_settings_are_another_cell(cell: Cell, monkeypatch: pytest.MonkeyPatch, tiny_graphs: Any) -> None:
    write_result(cell, CellResult(system="gcn", data="distance", seed=0, status="trained", test=0.5))
    assert finished(cell) is not None
    monkeypatch.setattr(cells, "data_set", lambda name: attrs.evolve(tiny_graphs, epochs=7))
    assert finished(cell) is None


def test_a_run_folder_with_a_broken_checkpoint_is_made_anew(cell: Cell) -> None:
    first = train_cell(cell)
    (cell.run_dir / "last.ckpt").write_bytes(b"no checkpoint")
    again = train_cell(cell)
    assert (again.status, again.test) == ("trained", first.test)


@pytest.mark.parametrize("text", ["", '{"system": "gcn"', '{"other": 1}'])
def test_a_broken_file_is_no_result(cell: Cell, text: str) -> None:
    cell.file.parent.mkdir(parents=True)
    cell.file.write_text(text)
    assert finished(cell) is None


def test_a_refusal_is_a_result_that_is_tried_again(cell: Cell) -> None:
    result = train_cell(attrs.evolve(cell, system="gcnn"))
    assert result.status == "failed"
    assert "Did you mean 'gcn'" in result.reason
    write_result(cell, result)
    assert finished(cell) is None


def test_an_exhausted_memory_is_a_result_with_the_need(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(cell: Cell) -> None:
        raise TrainingError("out of memory in epoch 1") from RuntimeError("you tried to allocate 5000000000 bytes")

    monkeypatch.setattr(cells, "_train", exhausted)
    result = train_cell(cell)
    assert result.status == "out of memory"
    assert result.peak > 5_000_000_000
    write_result(cell, result)
    assert finished(cell) == result


@pytest.mark.parametrize("error", [TrainingError("stopped by SIGTERM after 1 epochs"), RuntimeError("a fault")])
def test_a_signal_or_a_fault_is_no_result(cell: Cell, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def stopped(cell: Cell) -> None:
        raise error

    monkeypatch.setattr(cells, "_train", stopped)
    with pytest.raises(type(error), match=str(error)[:10]):
        train_cell(cell)


def test_cells_that_are_there_are_not_trained_again(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    there = CellResult(system="gcn", data="distance", seed=0, status="trained", test=0.25)
    write_result(cell, there)
    monkeypatch.setattr(workers._Worker, "train", lambda self, cell: pytest.fail("trained again"))
    said: list[CellResult] = []
    assert workers.run_cells([cell], said.append) == [there]
    assert said == []


def test_a_new_cell_is_written_at_once(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    new = CellResult(system="gcn", data="distance", seed=0, status="trained", test=0.25)
    monkeypatch.setattr(workers._Worker, "train", lambda self, cell: new)
    said: list[CellResult] = []
    assert workers.run_cells([cell], said.append) == said == [new]
    assert json.loads(cell.file.read_text())["test"] == 0.25


def test_a_killed_process_counts_as_out_of_memory_and_the_next_cell_runs(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The karate club is no data set of the paper, so the second cell is refused, by a process that lives."""
    with workers._Worker(None) as worker:
        pool = worker._open()
        first = worker.pid
        monkeypatch.setattr(pool, "submit", lambda *_: _killed(first))
        assert worker.train(cell).status == "out of memory"
        monkeypatch.undo()
        refused = worker.train(attrs.evolve(cell, data="karate"))
        assert refused.status == "failed"
        assert worker.pid != first


ORPHAN = """
import time
from kdlgt.experiments.reproduce import workers

if __name__ == "__main__":
    worker = workers._Worker(None)
    worker._open().submit(time.sleep, 300)
    print(worker.pid, flush=True)
    time.sleep(300)
"""


@pytest.mark.slow
def test_a_worker_ends_with_its_parent(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(ORPHAN)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 20
    while _lives(child) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _lives(child)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _killed(pid: int) -> Any:
    from concurrent.futures import Future

    os.kill(pid, signal.SIGKILL)
    future: Future[CellResult] = Future()
    future.set_exception(BrokenProcessPool("killed"))
    return future


@pytest.mark.slow
def test_two_cells_on_a_ray_cluster(tmp_path: Any, data_root: Any) -> None:
    pytest.importorskip("ray")
    from kdlgt.experiments.reproduce.ray_cells import run_cells_on_ray

    grid = [
        Cell(system=system, data="mutag", seed=0, budget="small", folder=tmp_path, data_root=data_root)
        for system in ("gcn", "gin")
    ]
    said: list[CellResult] = []
    found = run_cells_on_ray(grid, said.append)
    assert [result.system for result in found] == ["gcn", "gin"]
    assert {result.status for result in found} == {"trained"}
    assert len(said) == 2
    assert run_cells_on_ray(grid, said.append) == found
    assert len(said) == 2


@pytest.mark.slow
def test_a_cell_beyond_the_memory_limit_says_so(tmp_path: Any, data_root: Any) -> None:
    cell = Cell(system="sapdgt", data="mutag", seed=0, budget="small", folder=tmp_path, data_root=data_root)
    (result,) = workers.run_cells([cell], lambda result: None, memory_limit=20_000_000)
    assert result.status == "out of memory"
    assert result.peak > 20_000_000
