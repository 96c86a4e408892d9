"""``kdlgt new-plugin``."""

from __future__ import annotations

import pathlib
from typing import Annotated

from cyclopts import Parameter

HERE = pathlib.Path()


def new_plugin(name: str, *, directory: Annotated[pathlib.Path, Parameter(name="--dir")] = HERE) -> None:
    """Write a plugin of your own, a distribution with one encoding that passes the conformance kit, to be changed.

    Parameters
    ----------
    name
        The encoding's name in configs: lower-case words joined by underscores.
    directory
        Where the folder kdlgt-NAME goes.
    """
    from kdlgt.cli.tables import console
    from kdlgt.cli.template import write_plugin
    from kdlgt.errors import ArgumentError
    from kdlgt.registry import load_plugins

    taken = load_plugins().rpe_specs.get(name)
    if taken is not None:
        raise ArgumentError(f"name = {name!r} is taken by {taken.owner}; give another")
    folder = write_plugin(name, directory)
    out = console()
    out.print(f"wrote {folder}", highlight=False, soft_wrap=True)
    out.print("next: run its tests, install it, and change what it computes:", highlight=False)
    for line in (f"cd {folder}", "python -m pytest", "pip install --editable .", f"kdlgt check {name}"):
        out.print(f"    {line}", markup=False, highlight=False, soft_wrap=True)
