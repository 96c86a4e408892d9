"""``kdlgt predict``."""

from __future__ import annotations

import pathlib
from typing import Annotated

from cyclopts import Parameter


def predict(
    run_dir: pathlib.Path,
    /,
    *,
    out: pathlib.Path,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative=())] = (),
    data_root: pathlib.Path | None = None,
) -> None:
    """Predict with the best checkpoint of a run: a CSV table with one row per node or graph.

    Parameters
    ----------
    run_dir
        A folder that kdlgt train wrote.
    out
        The CSV file to write.
    set_
        Override one key, e.g. the data set.
    data_root
        Folder of data sets; without it $KDLGT_DATA, else a download.
    """
    from kdlgt.cli.tables import console
    from kdlgt.train import predict_run

    rows = predict_run(run_dir, out, overrides=set_, data_root=data_root)
    console().print(f"{out}: {rows} rows")
