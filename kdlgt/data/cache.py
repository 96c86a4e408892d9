"""Files of computed tensors: keyed, checked on reading, written atomically, free of code (safetensors)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.errors import ArgumentError

FORMAT = "1"
Fields = dict[str, Tensor]


def cache_dir() -> pathlib.Path:
    """``$KDLGT_CACHE``, or ``~/.cache/kdlgt``; everything in it can be deleted at any time."""
    given = os.environ.get("KDLGT_CACHE")
    return pathlib.Path(given).expanduser() if given else pathlib.Path.home() / ".cache" / "kdlgt"


def digest(parts: Iterable[str | bytes]) -> str:
    """SHA-256 of the parts, each with its length, so that no two lists of parts collide."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(f"{len(data)}:".encode())
        state.update(data)
    return state.hexdigest()


def graphs_digest(graphs: Sequence[Data]) -> str:
    """SHA-256 of all tensors on all graphs, with their names, dtypes and shapes, split masks aside."""
    return digest(part for graph in graphs for part in _graph_parts(graph))


def cached(
    kind: str, key: str, build: Callable[[], list[Fields]], fits: Callable[[list[Fields]], bool] = bool
) -> list[Fields]:
    """Read the tensors per graph under ``key``, or build and store them.

    A file that is truncated, altered, of another format or key, or that does not fit the graphs is built anew. A folder
    that cannot be written costs a warning, not the run.

    Args:
        kind: subfolder of the cache folder.
        key: digest of everything that the result depends on.
        build: computes the fields of every graph.
        fits: whether what was read can be right.
    """
    path = cache_dir() / kind / f"{key[:32]}.safetensors"
    found = read_fields(path, key)
    if found is not None and fits(found):
        return found
    built = build()
    try:
        write_fields(path, key, built)
    except OSError as error:
        warnings.warn(
            f"nothing was cached in {path.parent}: {error}; set KDLGT_CACHE to a writable folder", stacklevel=2
        )
    return built


def write_fields(path: pathlib.Path, key: str, fields: list[Fields]) -> None:
    """Store the fields of every graph in one file, in place only when complete."""
    tensors = _collate(fields)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".partial")
    os.close(handle)
    try:
        save_file(tensors, temporary, metadata={"format": FORMAT, "key": key, "sha256": _checksum(tensors)})
        pathlib.Path(temporary).replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            pathlib.Path(temporary).unlink()


def read_fields(path: pathlib.Path, key: str) -> list[Fields] | None:
    """The fields of every graph, or ``None`` when the file is missing, broken, or not of this key and format."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT or metadata.get("key") != key:
                return None
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        return _separate(tensors) if _checksum(tensors) == metadata.get("sha256") else None
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError):
        return None


def as_fields(graph: Data) -> Fields:
    """Every tensor of a graph by name, and its number of nodes."""
    tensors = {name: value for name, value in graph.to_dict().items() if isinstance(value, Tensor)}
    return tensors | {"num_nodes": torch.tensor([graph.num_nodes])}


def as_graph(fields: Mapping[str, Tensor]) -> Data:
    """The inverse of :func:`as_fields`."""
    tensors = {name: value for name, value in fields.items() if name != "num_nodes"}
    return Data(**tensors, num_nodes=int(fields["num_nodes"]))


def _graph_parts(graph: Data) -> Iterable[str | bytes]:
    fields = as_fields(graph)
    for name in sorted(fields):
        if not name.endswith("_mask"):
            value = fields[name].detach().cpu().contiguous()
            yield f"{name} {value.dtype} {tuple(value.shape)}"
            yield _bytes(value)
    yield "end"


def _bytes(value: Tensor) -> bytes:
    return value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""


def _dimension(name: str) -> int:
    """Node numbers [2, P] are joined along the last dimension, as in PyG's loader, everything else along the first."""
    return -1 if "index" in name else 0


def _collate(fields: list[Fields]) -> Fields:
    names = set(fields[0]) if fields else set()
    for number, graph in enumerate(fields):
        if set(graph) != names:
            raise ArgumentError(
                f"graph {number} has the fields {sorted(graph)}, graph 0 has {sorted(names)}; they must agree"
            )
    tensors: Fields = {}
    for name in sorted(names):
        values = [graph[name] for graph in fields]
        sizes = torch.tensor([0, *(value.size(_dimension(name)) for value in values)])
        tensors[f"value/{name}"] = torch.cat(values, _dimension(name)).contiguous()
        tensors[f"ends/{name}"] = sizes.cumsum(0)
    return tensors


def _separate(tensors: Fields) -> list[Fields]:
    columns = {
        name.removeprefix("value/"): torch.split(
            value, tensors[name.replace("value/", "ends/")].diff().tolist(), _dimension(name)
        )
        for name, value in tensors.items()
        if name.startswith("value/")
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _checksum(tensors: Fields) -> str:
    return digest(
        part for name in sorted(tensors) for part in (f"{name} {tuple(tensors[name].shape)}", _bytes(tensors[name]))
    )
