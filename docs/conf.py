"""Sphinx settings; the build needs no network."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent / "_extensions"))

project = "kdlgt"
author = "The kdlgt maintainers"
project_copyright = "The kdlgt maintainers"
release = importlib.metadata.version("kdlgt")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "config_table"]
exclude_patterns = ["_build", "_extensions"]
html_theme = "furo"
html_title = f"kdlgt {release}"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_use_ivar = True

if os.environ.get("KDLGT_DOCS_INTERSPHINX"):  # links into other projects' pages need the network
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
        "torch_geometric": ("https://pytorch-geometric.readthedocs.io/en/latest", None),
    }
