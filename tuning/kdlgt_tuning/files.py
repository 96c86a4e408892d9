"""The folder of a sweep: ``sweep.json``, ``results.csv``, ``best.toml``, ``report.html``."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from kdlgt.config import config_to_toml
from kdlgt.errors import RunFolderError
from kdlgt.train.run_folder import RunFolder, to_csv
from kdlgt_tuning.objective import Objective
from kdlgt_tuning.outcome import TrialOutcome, pareto_front, ranked
from kdlgt_tuning.space import Space
from kdlgt_tuning.trial import Job


@attrs.frozen
class SweepFolder:
    """Paths of a sweep, and how its files are written.

    Attributes:
        path: the folder.
    """

    path: pathlib.Path

    @property
    def record(self) -> pathlib.Path:
        """What was asked for."""
        return self.path / "sweep.json"

    @property
    def results(self) -> pathlib.Path:
        """One row per trial, best first."""
        return self.path / "results.csv"

    @property
    def best(self) -> pathlib.Path:
        """The config of the best trial."""
        return self.path / "best.toml"

    @property
    def report(self) -> pathlib.Path:
        """The page of plots."""
        return self.path / "report.html"

    def read_record(self) -> dict[str, Any] | None:
        """What was asked for when the sweep was started; ``None`` where there is no sweep.

        Raises:
            RunFolderError: the file is no JSON.
        """
        if not self.record.is_file():
            return None
        try:
            record: dict[str, Any] = json.loads(self.record.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise RunFolderError(f"{self.record} is not JSON: {error}; give another --storage") from error
        return record

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Write ``sweep.json``."""
        self._write(self.record, json.dumps(record, indent=2) + "\n")

    def write_results(self, outcomes: Sequence[TrialOutcome], space: Space, objective: Objective) -> None:
        """Write ``results.csv``."""
        paths = [parameter.path for parameter in space.parameters]
        front = {outcome.name for outcome in pareto_front(outcomes, objective)}
        header = ["rank", "trial", "status", f"val_{objective.metric}", *paths, "epochs", "best_epoch", "seconds"]
        header += ["seconds_per_epoch", "pareto", "run_folder", "error"]
        rows = [
            [
                rank,
                outcome.name,
                outcome.status,
                outcome.score,
                *(outcome.values.get(path, "") for path in paths),
                outcome.epoch,
                outcome.best_epoch,
                outcome.seconds,
                outcome.seconds_per_epoch,
                "yes" if outcome.name in front else "no",
                outcome.folder,
                outcome.error,
            ]
            for rank, outcome in enumerate(ranked(outcomes, objective), 1)
        ]
        self._write(self.results, to_csv(header, rows))

    def write_best(self, outcomes: Sequence[TrialOutcome], job: Job) -> None:
        """Write ``best.toml``, when a trial has a score."""
        best = next((outcome for outcome in ranked(outcomes, job.objective) if outcome.scored), None)
        if best is None:
            return
        values = ", ".join(f"{path} = {value!r}" for path, value in best.values.items())
        comment = (
            f"# The best of {len(outcomes)} trials ({best.name}, {best.status}): val {job.objective.metric} "
            f"{best.score:.6g} at epoch {best.best_epoch}.\n# {values}\n"
        )
        self._write(self.best, comment + config_to_toml(job.config(best.sample)))

    def _write(self, path: pathlib.Path, text: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        RunFolder(self.path).write_text(path, text)
