"""Self-contained HTML pages: of a run, of a fitted model, and of the demo."""

from rpmodels.report.demo import build_demo
from rpmodels.report.model_page import model_page
from rpmodels.report.page import build_page, check_free

__all__ = ["build_demo", "build_page", "check_free", "model_page"]
