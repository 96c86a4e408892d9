"""``kdlgt bench encodings``."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from kdlgt.experiments.encodings import EncodingError

DECAYS = (-1.0, -0.3)


def encodings(
    *,
    nodes: int = 400,
    width: int = 32,
    decay: Annotated[tuple[float, ...], Parameter(consume_multiple=True, negative=())] = DECAYS,
    seed: int = 0,
    data_root: pathlib.Path | None = None,
    json_: Annotated[pathlib.Path | None, Parameter(name="--json")] = None,
) -> None:
    """Measure how far attention with each linear encoding is from attention with the exact shortest path bias.

    Every number is the total variation distance between attention weights without queries and keys, the mean over
    nodes: 0 is equal, 1 is disjoint. The exact bias is c times the distance.

    Parameters
    ----------
    nodes
        Size of the graphs; the path has half as many.
    width
        Number of anchors, landmarks, eigenvectors or columns of each encoding.
    decay
        Values of c, the bias per hop.
    seed
        Seed of the drawn graphs.
    data_root
        Folder of raw data sets; without Cora in it or in $KDLGT_DATA its row is left out.
    json_
        Write the numbers to this file too.
    """
    import attrs

    from kdlgt.cli.tables import console, write_json
    from kdlgt.experiments.encodings import encoding_errors, example_graphs
    from kdlgt.registry import load_plugins

    registry = load_plugins()
    errors = encoding_errors(registry, example_graphs(nodes, seed, registry, data_root), decay, width)
    console().print(_table(errors, f"total variation from the exact SPD bias, width {width}"))
    settings = {"nodes": nodes, "width": width, "decays": list(decay), "seed": seed}
    write_json(json_, {"settings": settings, "errors": [attrs.asdict(error) for error in errors]})


def _table(errors: Sequence[EncodingError], title: str) -> Table:
    from rich.table import Table

    methods = dict.fromkeys(error.method for error in errors)
    table = Table("graph", "nodes", "c", *methods, title=title, title_justify="left")
    for graph, nodes, decay in dict.fromkeys((error.graph, error.nodes, error.decay) for error in errors):
        row = [error for error in errors if (error.graph, error.decay) == (graph, decay)]
        table.add_row(graph, str(nodes), f"{decay:g}", *(f"{error.total_variation:.3f}" for error in row))
    return table
