"""Sphinx: offline, warnings as errors (`make docs`)."""

import sys
from pathlib import Path

from rpmodels.versions import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "rpmodels"
copyright = "2026, the rpmodels developers"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathtext"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
html_math_renderer = "mathtext"
myst_heading_anchors = 3
exclude_patterns = ["_build", "results/*/table.md"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"rpmodels {release}"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# "ref.python": annotations name axes such as z, and several classes have a field of that name.
suppress_warnings = ["myst.xref_missing", "ref.python"]


def setup(app):
    """Shapes such as (N, *event) are not emphasis."""

    def escape(_app, _what, _name, _object, _options, lines):
        lines[:] = [line.replace("*event", r"\*event") for line in lines]

    app.connect("autodoc-process-docstring", escape, priority=1000)
