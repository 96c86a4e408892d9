"""The demonstration behind ``kdlgt train`` without a config: digits with and without an encoding, linear and exact."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Sequence
from importlib import resources

import attrs

from kdlgt.config import load_config
from kdlgt.registry import load_plugins
from kdlgt.train.loop import Listener
from kdlgt.train.rerun import evaluate_run
from kdlgt.train.runs import train_run

WITHOUT_RPE = "model.rpe=[]"
EXACT = "model.attention.mode=exact"


@attrs.frozen
class DemoRow:
    """One line of the demo's table.

    Attributes:
        rpe: names of the encodings.
        attention: linear, or exact on the weights that linear attention trained.
        accuracy: on the test nodes.
    """

    rpe: str
    attention: str
    accuracy: float


@attrs.frozen
class DemoOutcome:
    """The demo's table.

    Attributes:
        rows: accuracies.
        folder: where the run folders are.
        seconds: time in all.
    """

    rows: tuple[DemoRow, ...]
    folder: pathlib.Path
    seconds: float


def run_demo(
    folder: pathlib.Path,
    *,
    overrides: Sequence[str] = (),
    data_root: pathlib.Path | None = None,
    resume: bool = False,
    listener: Listener | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> DemoOutcome:
    """Train the embedded digits config with its encoding and without, and evaluate both with exact attention too.

    Before each training ``say`` gets a line on what is trained.

    Raises:
        KdlgtError: as :func:`kdlgt.train.train_run`.
    """
    start, registry = time.perf_counter(), load_plugins()
    rows: list[DemoRow] = []
    with resources.as_file(resources.files("kdlgt.train") / "digits.toml") as path:
        for twin, extra in (("with-rpe", ()), ("without-rpe", (WITHOUT_RPE,))):
            config = load_config(path, (*overrides, *extra), registry)
            name = " + ".join(component.name for component in config.model.rpe) or "none"
            say(f"digits, RPE: {name}")
            target = folder / twin
            result = train_run(config, target, data_root=data_root, resume=resume, registry=registry, listener=listener)
            exact = evaluate_run(target, overrides=(EXACT,), data_root=data_root)
            rows.append(DemoRow(name, "linear", result.test["accuracy"]))
            rows.append(DemoRow(name, "exact, same weights", exact["test"]["accuracy"]))
    return DemoOutcome(tuple(rows), folder, time.perf_counter() - start)
