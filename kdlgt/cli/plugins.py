"""``kdlgt plugins``."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdlgt.registry import Registry, Spec

COLUMNS = {
    "encodings": ("name", "kind", "exactness", "complexity", "owner", "summary", "source"),
    "absolute encodings": ("name", "owner", "summary", "source"),
    "feature maps": ("name", "owner", "summary", "source"),
    "data sets": ("name", "level", "owner", "summary", "source"),
}

TYPED = ("name", "kind", "exactness")
"""Never cut short: people type them."""

WIDE = 120
LEFT_OUT = ("complexity", "source")
"""Columns that only a terminal of ``WIDE`` columns shows; ``--json`` has them always."""


def plugins(*, json_: Annotated[pathlib.Path | None, Parameter(name="--json")] = None) -> None:
    """List what is installed: encodings, feature maps and data sets, and plugins that cannot be used.

    Parameters
    ----------
    json_
        Write the list to this file too.
    """
    from rich.table import Column, Table

    from kdlgt.cli.tables import console, write_json
    from kdlgt.registry import load_plugins

    entries = list_plugins(load_plugins())
    out = console()
    for kind, columns in COLUMNS.items():
        shown = [column for column in columns if out.width >= WIDE or column not in LEFT_OUT]
        headers = [Column(name, no_wrap=name in TYPED) for name in shown]
        table = Table(*headers, title=kind, title_justify="left", title_style="bold")
        for entry in entries[kind]:
            table.add_row(*(str(entry[column]) for column in shown))
        out.print(table)
    for entry in entries["broken"]:
        line = f"cannot be used: {entry['name']} of {entry['owner']}: {entry['reason']}"
        out.print(line, style="red", markup=False, soft_wrap=True)
    write_json(json_, entries)


def list_plugins(registry: Registry) -> dict[str, list[dict[str, Any]]]:
    """Plain entries by kind, sorted by name; ``broken`` holds what cannot be used, and why."""
    specs: dict[str, Mapping[str, Spec]] = {
        "encodings": registry.rpe_specs,
        "absolute encodings": registry.absolute_specs,
        "feature maps": registry.feature_map_specs,
        "data sets": registry.dataset_specs,
    }
    listed = {
        kind: [{column: getattr(spec, column) for column in COLUMNS[kind]} for spec in found.values()]
        for kind, found in specs.items()
    }
    broken = [{"name": plugin.name, "owner": plugin.owner, "reason": plugin.reason} for plugin in registry.broken]
    broken += [{"name": clash.name, "owner": "several", "reason": str(clash)} for clash in registry.conflicts]
    return {**listed, "broken": broken}
