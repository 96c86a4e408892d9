"""Data sets: what they are, how they are read, split and prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdlgt.data.bundle import DataBundle, RawData, Split
    from kdlgt.data.load import load_data

__all__ = ["DataBundle", "RawData", "Split", "load_data"]


def __getattr__(name: str) -> Any:
    """Import on first use: listing plugins passes through this package and must not wait for torch."""
    import importlib

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "kdlgt.data.load" if name == "load_data" else "kdlgt.data.bundle"
    return getattr(importlib.import_module(module), name)
