"""Self-contained HTML pages: of a run, and of the demo."""

from rpmodels.report.demo import build_demo
from rpmodels.report.page import build_page

__all__ = ["build_demo", "build_page"]
