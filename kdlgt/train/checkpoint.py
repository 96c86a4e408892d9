"""Checkpoints: plain tensors and numbers, written atomically, read without running any code of the file."""

from __future__ import annotations

import os
import pathlib
import pickle
import tomllib
import zipfile
from collections.abc import Sequence
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from kdlgt.errors import CheckpointError

FORMAT = "kdlgt checkpoint, version 1"


@attrs.frozen(eq=False, kw_only=True)
class Checkpoint:
    """The state of a run between two optimiser steps.

    Attributes:
        config: the resolved config as TOML.
        epoch: completed epochs.
        step: completed optimiser steps of the epoch after that.
        model: parameters and buffers.
        optimizer: the optimiser's state; empty in ``best.ckpt``.
        scaler: state of the loss scaler under ``precision = "16"``.
        progress: plain numbers: best score so far, epochs since, running loss.
    """

    config: str
    epoch: int
    step: int = 0
    model: dict[str, Tensor]
    optimizer: dict[str, Any] = attrs.field(factory=dict)
    scaler: dict[str, Any] = attrs.field(factory=dict)
    progress: dict[str, float | int] = attrs.field(factory=dict)


def save_checkpoint(path: pathlib.Path, checkpoint: Checkpoint) -> None:
    """Write next to ``path`` and move into place, so that a killed process leaves the old file or the new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    state = {field.name: getattr(checkpoint, field.name) for field in attrs.fields(Checkpoint)}
    try:
        torch.save({"format": FORMAT, **state}, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_checkpoint(path: pathlib.Path) -> Checkpoint:
    """Read a checkpoint; only tensors and plain values are ever unpickled.

    Raises:
        CheckpointError: no such file, truncated, or not written by kdlgt.
    """
    if not path.is_file():
        raise CheckpointError(
            f"{path}: no such checkpoint; a run writes best.ckpt and last.ckpt at the end of each epoch"
        )
    if not zipfile.is_zipfile(path):  # torch's older formats are bare pickles
        raise _unreadable(path, "no zip archive")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise _unreadable(path, str(error).partition("\n")[0][:120]) from error
    if not isinstance(state, dict) or state.pop("format", None) != FORMAT:
        raise CheckpointError(f"{path} is a torch file, but not a {FORMAT!r}; nothing was changed")
    return _checked(path, state)


def _unreadable(path: pathlib.Path, reason: str) -> CheckpointError:
    return CheckpointError(
        f"{path} cannot be read: it is truncated or holds something other than a kdlgt checkpoint ({reason}). "
        "Nothing was changed; restore the file, or delete it to start from the beginning"
    )


def _checked(path: pathlib.Path, state: dict[str, Any]) -> Checkpoint:
    names = {field.name for field in attrs.fields(Checkpoint)}
    if set(state) != names:
        raise CheckpointError(f"{path} has the fields {sorted(state)}; expected {sorted(names)}")
    return Checkpoint(**state)


def require_same_config(path: pathlib.Path, checkpoint: Checkpoint, config: str) -> None:
    """Raise :class:`CheckpointError` naming the keys in which the checkpoint's config differs from ``config``, TOML."""
    theirs, ours = _flat(tomllib.loads(checkpoint.config)), _flat(tomllib.loads(config))
    differing = [key for key in sorted({*theirs, *ours}) if theirs.get(key) != ours.get(key)]
    if differing:
        listed = "; ".join(f"{key} = {theirs.get(key)!r} there, {ours.get(key)!r} here" for key in differing[:5])
        more = f" and {len(differing) - 5} more" if len(differing) > 5 else ""
        raise CheckpointError(
            f"{path} belongs to another config: {listed}{more}. Nothing was changed; resume with the run's own "
            "config.toml, or train in another --run-dir"
        )


def load_weights(path: pathlib.Path, checkpoint: Checkpoint, model: nn.Module, overrides: Sequence[str] = ()) -> None:
    """Copy the checkpoint's parameters and buffers into ``model``.

    Where ``overrides`` change the feature map, its buffers that do not fit stay as they were drawn: trained parameters
    do not depend on it.

    Raises:
        CheckpointError: names or shapes differ; the message lists them.
    """
    state = dict(checkpoint.model)
    if any(override.startswith("model.features") for override in overrides):
        state = _with_drawn_features(state, model.state_dict())
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        changed = f" with {', '.join(overrides)}, which changes what was trained" if overrides else ""
        text = " ".join(str(error).split())[:600]
        raise CheckpointError(f"{path} does not fit this model{changed}: {text}") from error


def _with_drawn_features(saved: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """The saved state with the model's own buffers of feature maps where the saved ones do not fit."""
    kept = {name: value for name, value in saved.items() if ".features." not in name or name in own}
    drawn = {
        name: value
        for name, value in own.items()
        if ".features." in name and (name not in saved or saved[name].shape != value.shape)
    }
    return kept | drawn


def _flat(tree: object, prefix: str = "") -> dict[str, object]:
    if isinstance(tree, dict):
        items = [(f"{prefix}.{key}" if prefix else str(key), value) for key, value in tree.items()]
    elif isinstance(tree, list) and any(isinstance(entry, dict) for entry in tree):
        items = [(f"{prefix}.{index}", value) for index, value in enumerate(tree)]
    else:
        return {prefix: tree}
    return {key: leaf for name, value in items for key, leaf in _flat(value, name).items()}
