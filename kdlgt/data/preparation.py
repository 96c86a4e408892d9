"""Structure for every graph of a data set: once, from the cache when it is there, over processes when it is long."""

from __future__ import annotations

import copy
import inspect
import pathlib
import pickle
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

import kdlgt.graph
from kdlgt.data.cache import FORMAT, Fields, as_fields, as_graph, cached, digest, graphs_digest
from kdlgt.data.validation import naming
from kdlgt.errors import ArgumentError
from kdlgt.graph import Prepare

Arrays = dict[str, NDArray[np.generic]]

_PROBE_SECONDS = 2.0
# Starting a process costs about ten seconds of imports, so that shorter work is done here.
_WORTHWHILE_SECONDS = 30.0
_CHUNKS_PER_WORKER = 8


def prepared(
    graphs: Sequence[Data],
    prepare: Prepare | None,
    *,
    workers: int | None = None,
    cache: bool = True,
    progress: bool = False,
) -> tuple[Data, ...]:
    """The graphs with the fields of every structure.

    Args:
        graphs: validated graphs.
        prepare: the transform; ``None`` or one without structures returns the graphs as they are.
        workers: processes; 1 computes here, ``None`` takes all cores when a probe says that the work is long.
        cache: look into the cache folder first, and store there.
        progress: show a progress bar.

    Raises:
        GraphError: a structure refuses a graph; the message has its number.
        ArgumentError: a structure's fields cannot be joined, graph by graph; the message names both graphs.
    """
    if prepare is None or not prepare.structures:
        return tuple(graphs)

    def build() -> list[Fields]:
        computed = _compute(graphs, prepare, workers, progress)
        _check_alike(computed)
        return computed

    key = _key(graphs, prepare) if cache else None
    fields = build() if key is None else cached("structure", key, build, lambda found: _fits(found, graphs, prepare))
    return tuple(_with(graph, added) for graph, added in zip(graphs, fields, strict=True))


def _with(graph: Data, fields: Fields) -> Data:
    result = copy.copy(graph)
    for name, value in fields.items():
        result[name] = value
    return result


def _key(graphs: Sequence[Data], prepare: Prepare) -> str | None:
    """Digest of graphs, options, version and source; ``None`` for code that stands in no file (a notebook)."""
    sources = _sources(prepare)
    if sources is None:
        return None
    keys = [structure.key for structure in prepare.structures]
    return digest([FORMAT, version("kdlgt"), repr(prepare), *keys, *sources, graphs_digest(graphs)])


def _sources(prepare: Prepare) -> list[bytes] | None:
    """The code of the graph package and of each structure's folder, so that an edited encoding is computed anew."""
    folders = {pathlib.Path(kdlgt.graph.__file__).parent}
    for structure in prepare.structures:
        try:
            folders.add(pathlib.Path(inspect.getfile(type(structure))).parent)
        except (TypeError, OSError):
            return None
    return [file.read_bytes() for folder in sorted(folders) for file in sorted(folder.glob("*.py"))]


def _fits(found: list[Fields], graphs: Sequence[Data], prepare: Prepare) -> bool:
    """Whether cached fields can belong to these graphs: their names, and their sizes against the nodes."""
    keys = tuple(f"{structure.key}_" for structure in prepare.structures)
    return len(found) == len(graphs) and all(
        all(name.startswith(keys) for name in fields) and _sizes_fit(fields, graph.num_nodes or 0)
        for fields, graph in zip(found, graphs, strict=True)
    )


def _sizes_fit(fields: Fields, nodes: int) -> bool:
    """Whether every field has rows per node, graph, pair of nodes or pair of an index field beside it, or none."""
    rows = {nodes, 1, nodes**2, 0} | {value.size(-1) for name, value in fields.items() if "index" in name}
    return all(_field_fits(name, value, nodes, rows) for name, value in fields.items())


def _field_fits(name: str, value: Tensor, nodes: int, rows: set[int]) -> bool:
    if "index" not in name:
        return value.size(0) in rows
    inside = not value.numel() or (int(value.min()) >= 0 and int(value.max()) < nodes)
    return value.dim() == 2 and inside


def _check_alike(computed: list[Fields]) -> None:
    """Raise :class:`ArgumentError` unless all graphs have the fields of the first, with its dtypes and widths."""
    expected = {name: _joined_shape(name, value) for name, value in computed[0].items()} if computed else {}
    for number, fields in enumerate(computed):
        shapes = {name: _joined_shape(name, value) for name, value in fields.items()}
        for name in sorted(shapes.keys() | expected.keys()):
            if shapes.get(name) != expected.get(name):
                raise ArgumentError(
                    f"the structure field {name!r} is {shapes.get(name)} on graph {number} and {expected.get(name)} on "
                    "graph 0, so that graphs cannot be batched; pad it to one width"
                )


def _joined_shape(name: str, value: Tensor) -> str:
    """Dtype and shape, with a star for the dimension along which graphs are joined."""
    sizes = ["*", *map(str, value.shape[1:])] if "index" not in name else [*map(str, value.shape[:-1]), "*"]
    return f"{value.dtype} [{', '.join(sizes)}]"


def _compute(graphs: Sequence[Data], prepare: Prepare, workers: int | None, progress: bool) -> list[Fields]:
    from joblib import cpu_count
    from rich.progress import track

    count = cpu_count() if workers is None else max(workers, 1)
    results = _results(graphs, prepare, count, probe=workers is None)
    return list(track(results, description="structure", total=len(graphs), disable=not progress))


def _results(graphs: Sequence[Data], prepare: Prepare, workers: int, *, probe: bool) -> Iterator[Fields]:
    """Fields graph by graph; here until it is clear that processes pay."""
    start = time.monotonic()
    for number, graph in enumerate(graphs):
        left = len(graphs) - number
        if workers > 1 and left > 1 and (not probe or _long(time.monotonic() - start, number, left)):
            yield from _parallel(graphs, number, prepare, workers)
            return
        yield _fields(graph, prepare, number, len(graphs))


def _long(elapsed: float, done: int, left: int) -> bool:
    return elapsed > _PROBE_SECONDS and elapsed / max(done, 1) * left > _WORTHWHILE_SECONDS


def _fields(graph: Data, prepare: Prepare, number: int, total: int) -> Fields:
    keys = tuple(f"{structure.key}_" for structure in prepare.structures)
    with naming(number, total):
        result = prepare(graph)
    return {name: value for name, value in result.to_dict().items() if name.startswith(keys)}


def _parallel(graphs: Sequence[Data], first: int, prepare: Prepare, workers: int) -> Iterator[Fields]:
    """Chunks over processes; what is left is computed here when they cannot take the work or die."""
    from joblib import Parallel, delayed

    size = max(1, (len(graphs) - first) // (workers * _CHUNKS_PER_WORKER))
    starts = range(first, len(graphs), size)
    done = first
    try:
        # max_nbytes: arrays mapped from files would arrive read-only.
        pool = Parallel(n_jobs=workers, backend="loky", max_nbytes=None, return_as="generator")
        for chunk in pool(delayed(_chunk)(prepare, _arrays(graphs, at, size), at, len(graphs)) for at in starts):
            for arrays in chunk:
                done += 1
                yield {name: torch.from_numpy(array) for name, array in arrays.items()}
    except (pickle.PicklingError, BrokenProcessPool, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
        warnings.warn(f"structure is computed in one process: {reason}", RuntimeWarning, stacklevel=2)
        for number in range(done, len(graphs)):
            yield _fields(graphs[number], prepare, number, len(graphs))


def _arrays(graphs: Sequence[Data], first: int, size: int) -> list[Arrays]:
    """Graphs as NumPy arrays: tensors would travel as shared-memory files, thousands of them."""
    return [{name: value.numpy() for name, value in as_fields(graph).items()} for graph in graphs[first : first + size]]


def _chunk(prepare: Prepare, graphs: list[Arrays], first: int, total: int) -> list[Arrays]:
    torch.set_num_threads(1)
    return [
        {name: value.numpy() for name, value in _fields(_graph(arrays), prepare, first + number, total).items()}
        for number, arrays in enumerate(graphs)
    ]


def _graph(arrays: Arrays) -> Data:
    return as_graph({name: torch.from_numpy(array) for name, array in arrays.items()})
