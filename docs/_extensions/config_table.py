"""The directive ``config-table``: an options class as a table of key, type, default and meaning.

The meanings are the ``Attributes`` section of the class's docstring, so that a page cannot differ from the code.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import attrs
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kdlgt.config.schema import Component

HEADINGS = ("key", "type", "default", "meaning")


def meanings(options: type[Any]) -> dict[str, str]:
    """What the ``Attributes`` section says of each key; ``betas, eps: ...`` describes both."""
    section = inspect.cleandoc(options.__doc__ or "").partition("Attributes:\n")[2]
    joined = re.sub(r"\n {8,}", " ", section.split("\n\n")[0])
    entries = re.findall(r"^    ([\w, ]+): (.+)$", joined, flags=re.MULTILINE)
    return {key.strip(): text for names, text in entries for key in names.split(",")}


def default(field: attrs.Attribute[Any]) -> str:
    """A default as Python shows it; a component by its name, a table of its own by its class."""
    value = field.default
    if value is attrs.NOTHING:
        return "(required)"
    if isinstance(value, Component):
        return f'``{{ name = "{value.name}" }}``'
    return f"a ``{type(value).__name__}``" if attrs.has(type(value)) else f"``{value!r}``"


def rows(options: type[Any]) -> list[tuple[str, ...]]:
    """The body of the table."""
    described = meanings(options)
    return [
        (f"``{field.name}``", f"``{field.type}``", default(field), described.get(field.name, ""))
        for field in attrs.fields(options)
    ]


class ConfigTable(SphinxDirective):
    """``.. config-table:: kdlgt.config.schema.TrainConfig``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write a list table and let the parser read it."""
        module, _, name = self.arguments[0].rpartition(".")
        table = [".. list-table::", "   :header-rows: 1", "   :widths: 15 25 20 40", ""]
        for row in [HEADINGS, *rows(getattr(importlib.import_module(module), name))]:
            table += [f"   {'* -' if index == 0 else '  -'} {cell}" for index, cell in enumerate(row)]
        return self.parse_text_to_nodes("\n".join(table))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("config-table", ConfigTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
