"""Formulas as MathML, which browsers draw by themselves: no script and no network."""

from __future__ import annotations

import html

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def visit_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """``$...$`` within a line."""
    writer.body.append(convert(node, as_block=False))
    raise nodes.SkipNode


def visit_display(writer: HTML5Translator, node: nodes.math_block) -> None:
    """``$$...$$`` on lines of its own."""
    writer.body.append(f'<div class="formula">{convert(node, as_block=True)}</div>')
    raise nodes.SkipNode


def convert(node: nodes.Element, *, as_block: bool) -> str:
    """The formula of a node; one that docutils cannot read is a warning, and stays as it is written."""
    try:
        return str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logger.warning("%s in %s", error, node.astext(), location=node)
        return html.escape(node.astext())


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer, and choose it."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    app.config["html_math_renderer"] = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
