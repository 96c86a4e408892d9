"""Any PyG data set, by the dotted path of its class."""

from __future__ import annotations

import importlib
import inspect
import json
import pathlib
from typing import Any

from torch_geometric.data import Dataset

from kdlgt.data.bundle import RawData
from kdlgt.data.cache import cache_dir
from kdlgt.data.options import PygOptions
from kdlgt.data.own import described
from kdlgt.data.raw import quiet_warnings
from kdlgt.errors import DataError


def pyg(root: pathlib.Path | None, options: PygOptions) -> RawData:
    """The data set ``path(**arguments)``, with the task that its labels describe.

    Raises:
        DataError: the path names no PyG data set, or building it fails.
    """
    kind = _class(options.path)
    arguments = dict(map(_argument, options.arguments))
    if "root" in inspect.signature(kind).parameters:
        arguments.setdefault("root", str(cache_dir() / "data" / options.path.rpartition(".")[2]))
    try:
        with quiet_warnings():
            graphs = list(kind(**arguments))
    except Exception as error:
        # Other people's data sets fail in their own ways; the person needs to know which one and with what.
        raise DataError(f"{options.path}(**{arguments}) failed: {type(error).__name__}: {error}") from error
    return described(graphs, options)


def _class(path: str) -> type[Any]:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise DataError(
            f"data set 'pyg': path = {path!r} names no class ({error}); give a dotted path such as "
            "'torch_geometric.datasets.WikipediaNetwork'"
        ) from error
    if not (inspect.isclass(found) and issubclass(found, Dataset)):
        raise DataError(f"data set 'pyg': {path} is no subclass of torch_geometric.data.Dataset")
    return found


def _argument(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key.isidentifier():
        raise DataError(f"data set 'pyg': argument {text!r}; write key=value, such as 'name=chameleon'")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
