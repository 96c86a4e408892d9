"""Tables over runs: runs that differ by their seed alone are one row, with mean and deviation."""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from kdlgt.errors import RunFolderError
from kdlgt.train.run_folder import RunFolder


@attrs.frozen
class Statistic:
    """Mean and sample standard deviation of one metric.

    Attributes:
        mean: the mean.
        deviation: 0 for one value.
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Statistic:
        """Mean and deviation of the values."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)

    def __str__(self) -> str:
        return f"{self.mean:.4f} ± {self.deviation:.4f}" if self.deviation else f"{self.mean:.4f}"


@attrs.frozen(kw_only=True)
class ComparisonRow:
    """One config, over its seeds.

    Attributes:
        name: the run folder, or the folder of its seeds.
        data: data set.
        attention: ``linear``, ``exact`` or ``auto``.
        rpe: names of the encodings.
        seeds: seeds of the runs.
        parameters: number of parameters.
        seconds: training time.
        test: test metrics.
    """

    name: str
    data: str
    attention: str
    rpe: str
    seeds: tuple[int, ...]
    parameters: int
    seconds: Statistic
    test: dict[str, Statistic]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return attrs.asdict(self)


def compare_runs(paths: Iterable[pathlib.Path]) -> list[ComparisonRow]:
    """One row per config, in the order given, each run once; a folder of runs (``--seeds``) stands for them.

    Raises:
        RunFolderError: no runs, a folder without a run, or a run that has not finished.
    """
    found = {folder.path.resolve(): folder for path in paths for folder in _runs_in(path)}
    folders = list(found.values())
    if not folders:
        raise RunFolderError("nothing to compare; give run folders, e.g. kdlgt compare runs/*")
    groups: dict[str, list[RunFolder]] = {}
    for folder in folders:
        groups.setdefault(_group_key(folder), []).append(folder)
    return [_row(group) for group in groups.values()]


def _runs_in(path: pathlib.Path) -> list[RunFolder]:
    inside = sorted((file.parent for file in path.glob("*/config.toml")), key=_natural)
    if inside and not (path / "config.toml").is_file():
        return [RunFolder(folder) for folder in inside]
    return [RunFolder.existing(path)]


def _natural(path: pathlib.Path) -> tuple[str, int]:
    """Sorts ``seed-2`` before ``seed-10``."""
    stem = path.name.rstrip("0123456789")
    return stem, int(path.name[len(stem) :] or 0)


def _group_key(folder: RunFolder) -> str:
    """The config without its seed."""
    lines = folder.config.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("seed ="))


def _row(group: list[RunFolder]) -> ComparisonRow:
    results = [_complete(folder) for folder in group]
    names = {folder.path.parent if folder.path.name.startswith("seed-") else folder.path for folder in group}
    first = results[0]
    return ComparisonRow(
        name=", ".join(sorted(map(str, names))),
        data=first["data"],
        attention=first["attention"],
        rpe=" + ".join(first["rpe"]) or "none",
        seeds=tuple(result["seed"] for result in results),
        parameters=first["parameters"],
        seconds=Statistic.of([result["seconds"] for result in results]),
        test={metric: Statistic.of([result["test"][metric] for result in results]) for metric in first["test"]},
    )


def _complete(folder: RunFolder) -> dict[str, Any]:
    """The result of a run; :class:`RunFolderError` where something in it is missing."""
    result = folder.read_result()
    missing = sorted({"data", "attention", "rpe", "seed", "parameters", "seconds"} - result.keys())
    if missing:
        raise RunFolderError(f"{folder.result} lacks {', '.join(missing)}; evaluate or train the run again")
    return result
