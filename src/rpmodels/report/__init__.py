"""The HTML page of a run."""

from rpmodels.report.page import build_page

__all__ = ["build_page"]
