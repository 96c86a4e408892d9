"""``kdlgt evaluate``."""

from __future__ import annotations

import pathlib
from typing import Annotated

from cyclopts import Parameter


def evaluate(
    run_dir: pathlib.Path,
    /,
    *,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative=())] = (),
    data_root: pathlib.Path | None = None,
    json_: Annotated[pathlib.Path | None, Parameter(name="--json")] = None,
) -> None:
    """Evaluate the best checkpoint of a run on its splits.

    Parameters
    ----------
    run_dir
        A folder that kdlgt train wrote.
    set_
        Override one key: --set model.attention.mode=exact runs the quadratic twin on the same checkpoint.
    data_root
        Folder of data sets; without it $KDLGT_DATA, else a download.
    json_
        Write the metrics to this file too.
    """
    from kdlgt.cli.tables import console, print_scores, write_json
    from kdlgt.train import evaluate_run

    found = evaluate_run(run_dir, overrides=set_, data_root=data_root)
    scores = {str(part): values for part, values in found.items()}
    print_scores(console(), f"{run_dir} {' '.join(set_)}".strip(), scores)
    write_json(json_, scores)
