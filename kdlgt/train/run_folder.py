"""The run folder: everything needed to evaluate, predict, compare and repeat a run."""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
import io
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from kdlgt.errors import RunFolderError

VERSIONS = ("kdlgt", "torch", "torch-geometric", "lightning", "torchmetrics", "numpy", "scipy", "scikit-learn")


@attrs.frozen
class RunFolder:
    """Paths of a run, and how its files are written.

    Attributes:
        path: the folder.
    """

    path: pathlib.Path

    @classmethod
    def start(cls, path: pathlib.Path, *, resume: bool) -> RunFolder:
        """Choose an empty or new folder, or with ``resume`` the folder of an earlier run; nothing is written yet.

        Raises:
            RunFolderError: the folder holds a run and ``resume`` is off, or holds something else.
        """
        folder = cls(path)
        if path.exists() and not path.is_dir():
            raise RunFolderError(f"{path} is a file; give a folder as --run-dir")
        if path.is_dir() and any(path.iterdir()):
            if not folder.config.is_file():
                raise RunFolderError(
                    f"{path} is not empty and holds no run (no config.toml); nothing was written. Choose another"
                )
            if not resume:
                raise RunFolderError(
                    f"{path} already holds a run; continue it with --resume, or choose another --run-dir"
                )
        return folder

    @classmethod
    def existing(cls, path: pathlib.Path) -> RunFolder:
        """Open the folder of an earlier run.

        Raises:
            RunFolderError: there is no run in ``path``.
        """
        folder = cls(path)
        if not path.is_dir():
            raise RunFolderError(f"{path}: no such run folder; `kdlgt train CONFIG --run-dir {path}` makes one")
        if not folder.config.is_file():
            raise RunFolderError(f"{path} holds no run (no config.toml); give a folder that kdlgt train wrote")
        return folder

    @property
    def config(self) -> pathlib.Path:
        """The resolved config."""
        return self.path / "config.toml"

    @property
    def best(self) -> pathlib.Path:
        """Weights of the best epoch by the validation metric."""
        return self.path / "best.ckpt"

    @property
    def last(self) -> pathlib.Path:
        """Full state at the end of the last epoch, or at the step when a signal came."""
        return self.path / "last.ckpt"

    @property
    def metrics(self) -> pathlib.Path:
        """One row per epoch."""
        return self.path / "metrics.csv"

    @property
    def predictions(self) -> pathlib.Path:
        """One row per node or graph, from the best weights."""
        return self.path / "predictions.csv"

    @property
    def split(self) -> pathlib.Path:
        """Which nodes or graphs train, validate and test."""
        return self.path / "split.json"

    @property
    def result(self) -> pathlib.Path:
        """Test metrics: ``{"test": {metric: value}, ...}``."""
        return self.path / "result.json"

    @property
    def health(self) -> pathlib.Path:
        """How far linear attention is from the softmax, for each layer and head; not for models in exact mode."""
        return self.path / "health.json"

    @property
    def report(self) -> pathlib.Path:
        """The page to look at first."""
        return self.path / "report.html"

    @property
    def tensorboard(self) -> pathlib.Path:
        """TensorBoard event files."""
        return self.path / "tensorboard"

    def write_text(self, path: pathlib.Path, text: str) -> None:
        """Write a whole file atomically."""
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)

    def write_json(self, path: pathlib.Path, tree: Mapping[str, Any]) -> None:
        """Write a JSON file atomically."""
        self.write_text(path, json.dumps(tree, indent=2, allow_nan=True) + "\n")

    @property
    def environment(self) -> pathlib.Path:
        """Versions, machine, command line, seed, owners of the components, and the commit where git knows it."""
        return self.path / "environment.json"

    def write_environment(self, seed: int, components: Mapping[str, str]) -> None:
        """Write ``environment.json``; ``components`` are owners by kind and name."""
        self.write_json(self.environment, environment(seed) | {"components": dict(components)})

    def read_components(self) -> dict[str, str]:
        """Owners of the run's components by kind and name; none where the file is missing or broken."""
        try:
            found = json.loads(self.environment.read_text(encoding="utf-8"))["components"]
            return {str(name): str(owner) for name, owner in found.items()}
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return {}

    def append_metrics(self, row: Mapping[str, float | int]) -> None:
        """Append one epoch to ``metrics.csv``."""
        header, _, values = to_csv(list(row), [list(row.values())]).partition("\n")
        with self.metrics.open("a", encoding="utf-8", newline="") as file:
            file.write(values if file.tell() else f"{header}\n{values}")

    def truncate_metrics(self, epochs: int) -> None:
        """Drop the rows after ``epochs`` completed epochs, and a half-written one; a resumed run writes them again."""
        header, rows = self.read_metrics()
        if header:
            kept = [list(row.values()) for row in rows if row["epoch"] <= epochs]
            self.write_text(self.metrics, to_csv(header, kept))

    def read_metrics(self) -> tuple[list[str], list[dict[str, float]]]:
        """Column names and complete rows of ``metrics.csv``; none before the first epoch."""
        if not self.metrics.is_file():
            return [], []
        with self.metrics.open(encoding="utf-8", newline="") as file:
            lines = [line for line in file if line.endswith("\n")]
        table = list(csv.reader(lines))
        header = table[0] if table else []
        rows = [dict(zip(header, map(float, row), strict=True)) for row in table[1:] if len(row) == len(header)]
        return header, rows

    def read_result(self) -> dict[str, Any]:
        """The content of ``result.json``.

        Raises:
            RunFolderError: the run has not finished, or the file is not what a run writes.
        """
        if not self.result.is_file():
            raise RunFolderError(f"{self.path} has no result.json: the run has not finished; continue it with --resume")
        try:
            tree: object = json.loads(self.result.read_text(encoding="utf-8"))
        except ValueError as error:
            raise RunFolderError(f"{self.result} is not JSON: {error}") from error
        if not isinstance(tree, dict) or not isinstance(tree.get("test"), dict):
            raise RunFolderError(f"{self.result} is not the result of a run; train again, or give another folder")
        return tree


def to_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV table as text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_number(value) for value in row] for row in rows)
    return text.getvalue()


def _number(value: object) -> object:
    """Whole floats without a fraction, so that epochs stay integers after a round trip."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def environment(seed: int) -> dict[str, Any]:
    """Versions, machine, command line and seed of this process."""
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "seed": seed,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "versions": {name: _version(name) for name in VERSIONS},
        "commit": _commit(),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Commit of the working folder's repository, where there is one."""
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or None
