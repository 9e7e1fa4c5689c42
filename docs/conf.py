"""Sphinx: offline, warnings as errors (`make docs`)."""

from rpmodels.versions import __version__

project = "rpmodels"
copyright = "2026, the rpmodels developers"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "results/*/table.md"]
html_theme = "furo"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
suppress_warnings = ["myst.xref_missing"]


def setup(app):
    """Shapes such as (N, *event) are not emphasis."""

    def escape(_app, _what, _name, _object, _options, lines):
        lines[:] = [line.replace("*event", r"\*event") for line in lines]

    app.connect("autodoc-process-docstring", escape, priority=1000)
