"""kdlgt: graph transformers with relative positional encodings in linear time.

The public names are imported when they are first used, so that ``import kdlgt`` and the command line's help do not wait
for torch.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdlgt.attention import exact_attention, linear_attention
    from kdlgt.build import build_model, prepare
    from kdlgt.config import load_config
    from kdlgt.graph import Prepare
    from kdlgt.registry import Registry, load_plugins

    __version__: str

__all__ = [
    "Prepare",
    "Registry",
    "__version__",
    "build_model",
    "exact_attention",
    "linear_attention",
    "load_config",
    "load_plugins",
    "prepare",
]

_HOMES = {
    "Prepare": "kdlgt.graph",
    "Registry": "kdlgt.registry",
    "build_model": "kdlgt.build",
    "exact_attention": "kdlgt.attention",
    "linear_attention": "kdlgt.attention",
    "load_config": "kdlgt.config",
    "load_plugins": "kdlgt.registry",
    "prepare": "kdlgt.build",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return importlib.metadata.version("kdlgt")
    if name not in _HOMES:
        raise AttributeError(f"module 'kdlgt' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
