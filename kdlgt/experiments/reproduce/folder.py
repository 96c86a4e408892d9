"""The folder of an experiment: data, pictures, the command, versions and seed."""

from __future__ import annotations

import pathlib

from kdlgt.experiments.reproduce.outcome import Outcome, Request
from kdlgt.train.run_folder import RunFolder, environment

DPI = 130


def write_outcome(outcome: Outcome, request: Request, *, seconds: float) -> None:
    """Write ``<name>.json``, a CSV per table, a PNG per picture, ``command.txt`` and ``environment.json``."""
    request.folder.mkdir(parents=True, exist_ok=True)
    files = RunFolder(request.folder)
    described = environment(request.seed) | {"repeat": request.command, "seconds": round(seconds, 1)}
    files.write_json(request.folder / f"{outcome.name}.json", outcome.to_dict() | {"environment": described})
    files.write_json(request.folder / "environment.json", described)
    files.write_text(request.folder / "command.txt", f"{request.command}\n")
    for table in outcome.tables:
        files.write_text(request.folder / f"{table.name}.csv", table.to_csv())
    for picture in outcome.pictures:
        picture.figure.savefig(picture_path(request.folder, picture.name), dpi=DPI)


def picture_path(folder: pathlib.Path, name: str) -> pathlib.Path:
    """Where a picture of an experiment lies."""
    return folder / f"{name}.png"
