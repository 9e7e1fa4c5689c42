"""A real browser without a window, for the tests of pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BINARY, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    BINARY is None or DRIVER is None, reason="needs Debian's chromium and chromium-driver (apt-get install)"
)


@contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    from selenium import webdriver  # noqa: PLC0415
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

    options = webdriver.ChromeOptions()
    options.binary_location = BINARY
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def look(driver: Any, width: int, scheme: str) -> None:
    """A window of this width, in light or dark."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme_ = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme_})


def problems(driver: Any) -> list[str]:
    """What the console complains of."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


CONTRAST = """
const texts = "p, h1, h2, dt, dd, legend, label, summary, output, figcaption, .soft, td, th, button, code";
const linear = (v) => (v /= 255, v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = (c) => c.map(linear).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
const ground = (node) => {
  for (; node; node = node.parentElement) {
    const c = rgb(getComputedStyle(node).backgroundColor);
    if (c.length < 4 || c[3] > 0.9) return c.slice(0, 3);
  }
  return [255, 255, 255];
};
const contrast = (node) => {
  const both = [light(rgb(getComputedStyle(node).color).slice(0, 3)), light(ground(node))];
  return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
};
return Math.min(...[...document.querySelectorAll(texts)].filter((node) => node.textContent.trim()).map(contrast));
"""
"""The least contrast of any text with what is behind it (WCAG); 4.5 is what is asked of small text."""
