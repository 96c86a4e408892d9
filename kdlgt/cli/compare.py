"""``kdlgt compare``."""

from __future__ import annotations

import pathlib
from typing import Annotated

from cyclopts import Parameter


def compare(
    *runs: pathlib.Path,
    json_: Annotated[pathlib.Path | None, Parameter(name="--json")] = None,
) -> None:
    """Compare runs: one row per run, runs that differ by their seed alone as mean and deviation.

    Parameters
    ----------
    runs
        Folders that kdlgt train wrote.
    json_
        Write the table to this file too.
    """
    from kdlgt.cli.tables import console, print_comparison, write_json
    from kdlgt.train.compare import compare_runs

    rows = compare_runs(runs)
    print_comparison(console(), rows)
    write_json(json_, {"runs": [row.to_dict() for row in rows]})
