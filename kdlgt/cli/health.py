"""``kdlgt health``."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from rich.table import Table


def health(
    target: pathlib.Path,
    /,
    *,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative=())] = (),
    rows: int = 64,
    seed: int = 0,
    data_root: pathlib.Path | None = None,
    json_: Annotated[pathlib.Path | None, Parameter(name="--json")] = None,
    png: pathlib.Path | None = None,
) -> None:
    """Report how far linear attention is from the softmax, for each layer and head.

    Parameters
    ----------
    target
        A folder that kdlgt train wrote (its best weights), or a config (its untrained model).
    set_
        Override one key, e.g. --set model.features.num_features=256.
    rows
        Nodes to sample in each layer.
    seed
        Seed of the sample.
    data_root
        Folder of data sets; without it $KDLGT_DATA, else a download.
    json_
        Write the report to this file too.
    png
        Draw the report into this file.
    """
    import warnings

    from kdlgt.cli.tables import console, write_json
    from kdlgt.errors import ApproximationWarning
    from kdlgt.experiments.health import run_health
    from kdlgt.experiments.health_picture import draw_health

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ApproximationWarning)
        found = run_health(target, overrides=set_, data_root=data_root, rows=rows, seed=seed)
    tree = found.to_dict()
    out = console()
    out.print(health_table(tree, str(target)))
    for warning in caught:
        out.print(f"warning: {warning.message}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    write_json(json_, tree)
    if png is not None:
        png.parent.mkdir(parents=True, exist_ok=True)
        draw_health(found).savefig(png, format="png", dpi=150)


def health_table(tree: Mapping[str, Any], title: str) -> Table:
    """One row per layer and head."""
    from rich.table import Table

    table = Table(
        *("layer", "head", "r", "effective features", "share", "total variation"),
        *("log c median", "log c max", "Lemma 1 factor", "state"),
        title=title,
        title_justify="left",
    )
    for head in tree["heads"]:
        quantiles = head["log_c_quantiles"]
        table.add_row(
            str(head["layer"]),
            str(head["head"]),
            str(head["num_features"]),
            f"{head['effective_size']:.1f}",
            f"{head['effective_share']:.3f}",
            f"{head['total_variation']:.3f}",
            "" if quantiles is None else f"{quantiles['0.5']:.2f}",
            "" if quantiles is None else f"{head['log_c_max']:.2f}",
            "" if quantiles is None else _factor(head["lemma_factor"]),
            "[red]collapsed[/red]" if head["collapsed"] else "ok",
        )
    return table


def _factor(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.2f}"
