from __future__ import annotations

import pathlib
import pickle

import pytest
import torch

from kdlgt.errors import CheckpointError
from kdlgt.train.checkpoint import Checkpoint, load_checkpoint, load_weights, require_same_config, save_checkpoint

CONFIG = "[train]\nlr = 0.1\n[[model.rpe]]\nname = 'a'\n"


def a_checkpoint(config: str = CONFIG) -> Checkpoint:
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return Checkpoint(
        config=config,
        epoch=4,
        step=2,
        model=layer.state_dict(),
        optimizer=optimizer.state_dict(),
        progress={"best": 0.5},
    )


def test_a_checkpoint_comes_back_as_it_was(tmp_path: pathlib.Path) -> None:
    saved = a_checkpoint()
    save_checkpoint(tmp_path / "a.ckpt", saved)
    loaded = load_checkpoint(tmp_path / "a.ckpt")
    assert (loaded.config, loaded.epoch, loaded.step, loaded.progress) == (CONFIG, 4, 2, {"best": 0.5})
    assert all(torch.equal(loaded.model[name], tensor) for name, tensor in saved.model.items())
    assert torch.equal(loaded.optimizer["state"][0]["exp_avg"], saved.optimizer["state"][0]["exp_avg"])
    assert [path.name for path in tmp_path.iterdir()] == ["a.ckpt"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ckpt"
    save_checkpoint(path, a_checkpoint())
    before = path.read_bytes()

    def half(state: object, target: pathlib.Path) -> None:
        target.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(path, a_checkpoint())
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.ckpt"]


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.99])
def test_a_truncated_file_is_named(tmp_path: pathlib.Path, keep: float) -> None:
    path = tmp_path / "a.ckpt"
    save_checkpoint(path, a_checkpoint())
    content = path.read_bytes()
    path.write_bytes(content[: int(keep if isinstance(keep, int) else keep * len(content))])
    with pytest.raises(CheckpointError, match=r"a\.ckpt cannot be read.*truncated"):
        load_checkpoint(path)


@pytest.mark.parametrize("content", [b"not a checkpoint", b"\x89PNG\r\n\x1a\n", b"[model]\nhidden = 3\n"])
def test_a_foreign_file_is_named(tmp_path: pathlib.Path, content: bytes) -> None:
    path = tmp_path / "a.ckpt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"[Nn]othing was changed"):
        load_checkpoint(path)
    assert path.read_bytes() == content


class Bomb:
    def __init__(self, target: pathlib.Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return pathlib.Path.touch, (self.target,)


def test_no_code_of_a_checkpoint_runs(tmp_path: pathlib.Path) -> None:
    trace = tmp_path / "ran"
    torch.save({"format": Bomb(trace)}, tmp_path / "torch.ckpt")
    (tmp_path / "pickle.ckpt").write_bytes(pickle.dumps(Bomb(trace)))
    for name in ("torch.ckpt", "pickle.ckpt"):
        with pytest.raises(CheckpointError):
            load_checkpoint(tmp_path / name)
    assert not trace.exists()
    pickle.loads((tmp_path / "pickle.ckpt").read_bytes())
    assert trace.exists()


def test_a_torch_file_of_somebody_else_is_named(tmp_path: pathlib.Path) -> None:
    torch.save({"state_dict": {}}, tmp_path / "a.ckpt")
    with pytest.raises(CheckpointError, match="not a 'kdlgt checkpoint"):
        load_checkpoint(tmp_path / "a.ckpt")


def test_a_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        load_checkpoint(tmp_path / "a.ckpt")


def test_the_differing_keys_of_another_config_are_named(tmp_path: pathlib.Path) -> None:
    other = CONFIG.replace("0.1", "0.2").replace("'a'", "'b'")
    with pytest.raises(
        CheckpointError, match=r"model\.rpe\.0\.name = 'a' there, 'b' here; train\.lr = 0\.1 there, 0\.2 here"
    ):
        require_same_config(tmp_path / "a.ckpt", a_checkpoint(), other)
    require_same_config(tmp_path / "a.ckpt", a_checkpoint(), CONFIG + "\n# a comment")


def test_weights_of_another_model_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CheckpointError, match=r"does not fit this model.*size mismatch"):
        load_weights(tmp_path / "a.ckpt", a_checkpoint(), torch.nn.Linear(3, 5))
