"""``kdlgt train``."""

from __future__ import annotations

import pathlib
from typing import Annotated

from cyclopts import Parameter


def train(
    config: pathlib.Path | None = None,
    /,
    *,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative=())] = (),
    resume: Annotated[bool, Parameter(negative=())] = False,
    data_root: pathlib.Path | None = None,
    run_dir: pathlib.Path | None = None,
    seeds: int = 1,
) -> None:
    """Train a model from a config, write a run folder and print the test metrics; without a config, the digits demo.

    Parameters
    ----------
    config
        A TOML file; examples/ holds some.
    set_
        Override one key, e.g. --set model.rpe.0.k=3; may be given several times.
    resume
        Go on from the last checkpoint of --run-dir, or start there when it has none.
    data_root
        Folder of data sets; without it $KDLGT_DATA, else a download.
    run_dir
        Folder to write; by default runs/<config>-seed<seed>.
    seeds
        Train this many times, with consecutive seeds, and print mean and deviation.
    """
    if config is None:
        _demo(run_dir or pathlib.Path("runs/digits-demo"), set_, data_root, resume)
    else:
        _run(config, run_dir, set_, data_root, resume, seeds)


def _demo(folder: pathlib.Path, overrides: tuple[str, ...], data_root: pathlib.Path | None, resume: bool) -> None:
    from kdlgt.cli.progress import progress_listener
    from kdlgt.cli.tables import console, print_demo
    from kdlgt.train.demo import run_demo

    out = console()
    with progress_listener(out) as listener:
        outcome = run_demo(
            folder, overrides=overrides, data_root=data_root, resume=resume, listener=listener, say=out.print
        )
    print_demo(out, outcome)


def _run(
    path: pathlib.Path,
    run_dir: pathlib.Path | None,
    overrides: tuple[str, ...],
    data_root: pathlib.Path | None,
    resume: bool,
    seeds: int,
) -> None:
    from kdlgt.cli.progress import progress_listener
    from kdlgt.cli.tables import console, print_result, print_summary
    from kdlgt.config import load_config
    from kdlgt.registry import load_plugins
    from kdlgt.train import train_run, train_seeds

    registry = load_plugins()
    config = load_config(path, overrides, registry)
    folder = run_dir or _default_folder(path, config.train.seed, seeds)
    with progress_listener(console()) as listener:
        if seeds > 1:
            summary = train_seeds(
                config, folder, seeds, data_root=data_root, resume=resume, registry=registry, listener=listener
            )
        else:
            result = train_run(config, folder, data_root=data_root, resume=resume, registry=registry, listener=listener)
    if seeds > 1:
        print_summary(console(), folder, summary)
    else:
        print_result(console(), folder, result)


def _default_folder(config: pathlib.Path, seed: int, seeds: int) -> pathlib.Path:
    return pathlib.Path("runs") / (config.stem if seeds > 1 else f"{config.stem}-seed{seed}")
