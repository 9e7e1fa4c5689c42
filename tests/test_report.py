"""Pages: their blocks, the demo's code, and their widgets in a real browser."""

import io
import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

from browser import CONTRAST, browser, look, needs_browser, problems
from rpmodels import errors
from rpmodels.errors import RPModelsError
from rpmodels.report import build_demo, examples, html, widgets
from rpmodels.report import demo as demo_page


def page_with_widgets() -> str:
    """Both kinds of widgets, a table, a picture and code, from made-up numbers."""
    random = np.random.default_rng(0)
    times = np.arange(30)
    truth = np.sin(times / 4)
    rows = random.standard_normal((30, 6))
    rows[5] = np.nan
    views = [
        widgets.Path("both", truth + 0.1, np.full(30, 0.2)),
        widgets.Path("no sound", truth - 0.1, np.full(30, 0.5), (10, 20), (1,)),
    ]
    strips = [widgets.Strip("camera", rows), widgets.Strip("sound", rows[:, :3])]
    scrub = widgets.scrub("A path </script> & its band", truth, strips, views, views[:1] * 2, "sensors")
    buffer = io.BytesIO()
    plt.imsave(buffer, random.random((20, 20)), format="png")
    probabilities = random.dirichlet(np.ones(3), 20)
    mosaic = widgets.mosaic("A mosaic", buffer.getvalue(), (4, 5), probabilities, np.arange(20) % 3, ("a", "b", "c"))
    _, other = plt.subplots()
    other.plot(truth)
    parts = [
        html.paragraph("text"),
        html.facts({"accuracy": 0.9}),
        html.picture(other, "A line", "A caption."),
        html.table(("name", "value"), [("a", 1.0)]),
        html.code("print('<b>')", "the code"),
    ]
    return html.document(
        "A page", html.paragraph("lead"), html.section("One", *parts), html.section("Two", scrub, mosaic)
    )


def test_blocks_escape_what_they_are_given():
    assert html.paragraph("<script>") == "<p>&lt;script&gt;</p>"
    assert "<b>" not in html.code("<b>") + html.table(("<b>",), [("<b>",)]) + html.facts({"<b>": "<b>"})
    inside = html.widget("scrub", {"alt": "</script><script>alert(1)"})
    assert inside.count("</script>") == 1
    payload = inside.split(">", 2)[2].rsplit("</script>", 1)[0]
    assert json.loads(payload) == {"alt": "</script><script>alert(1)"}


def test_numbers_of_widgets_are_plain_json_with_null_for_missing():
    strip = widgets._strip(widgets.Strip("x", np.array([[1.0, np.nan], [2.0, 3.0]])))
    assert strip["rows"] == [[1.0, None], [2.0, 3.0]]
    json.dumps(strip, allow_nan=False)


@pytest.mark.parametrize("example", [each.run for each in demo_page.EXAMPLES])
def test_the_code_on_the_demo_page_is_code(example):
    shown = examples.source(example)
    compile(shown, "demo", "exec")
    assert "import rpmodels as rp" in shown
    assert "return" not in shown
    assert ".fit(" in shown


def test_the_demo_runs_its_examples_and_keeps_what_is_there(tmp_path, monkeypatch):
    calls = []

    def run():
        """Nothing much."""
        calls.append(1)
        return (1.5,)

    small = demo_page.Example(
        "A title", "A story.", run, lambda number: ({"number": number}, [html.paragraph("shown")])
    )
    monkeypatch.setattr(demo_page, "EXAMPLES", (small,))
    out = build_demo(tmp_path / "demo" / "report.html", say=lambda _: None)
    text = out.read_text(encoding="utf-8")
    for expected in ("A title", "A story.", "1.5", "shown", "calls.append(1)"):
        assert expected in text
    with pytest.raises(RPModelsError, match="force"):
        build_demo(out, say=lambda _: None)
    assert len(calls) == 1, "refused before any work"


def test_an_example_without_its_package_says_so(tmp_path, monkeypatch):
    def run():
        raise errors.needs_package("texture_mosaics", "scikit-image", "pip install 'rpmodels[textures]'")

    monkeypatch.setattr(demo_page, "EXAMPLES", (demo_page.Example("T", "S", run, lambda: ({}, [])),))
    text = build_demo(tmp_path / "r.html", say=lambda _: None).read_text(encoding="utf-8")
    assert "scikit-image" in text


@needs_browser
def test_widgets_in_a_browser(tmp_path):
    from selenium.webdriver.common.by import By  # noqa: PLC0415
    from selenium.webdriver.common.keys import Keys  # noqa: PLC0415

    page = tmp_path / "page.html"
    page.write_text(page_with_widgets(), encoding="utf-8")
    with browser() as driver:
        for width, scheme in ((1400, "light"), (400, "dark")):
            look(driver, width, scheme)
            driver.get(page.as_uri())
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
            assert driver.execute_script(CONTRAST) >= 4.5, scheme
            assert driver.execute_script("return [...document.images].every((i) => i.alt && i.naturalWidth > 0)")
        slider = driver.find_element(By.CSS_SELECTOR, "input[type=range]")
        said = driver.find_element(By.CSS_SELECTOR, ".controls output")
        assert said.text.startswith("time 0:")
        slider.send_keys(Keys.ARROW_RIGHT * 3)
        assert said.text.startswith("time 3:")
        before = driver.find_element(By.CSS_SELECTOR, "path.posterior").get_attribute("d")
        driver.find_elements(By.CSS_SELECTOR, "input[type=radio]")[1].click()
        assert driver.find_element(By.CSS_SELECTOR, "path.posterior").get_attribute("d") != before
        assert float(driver.find_element(By.CSS_SELECTOR, "rect.gap").get_attribute("width")) > 0
        play = driver.find_element(By.CSS_SELECTOR, ".controls button")
        play.click()
        assert play.text == "Pause"
        play.click()
        assert play.text == "Play"
        patches = driver.find_elements(By.CSS_SELECTOR, ".patches button")
        assert len(patches) == 20
        patches[0].send_keys(Keys.ARROW_DOWN)
        told = driver.find_elements(By.CSS_SELECTOR, ".controls output")[1].text
        assert told.startswith("row 2, column 1: category")
        driver.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
        assert "rgb" in patches[3].value_of_css_property("background-color")
        assert not problems(driver)


@pytest.mark.soak
@needs_browser
def test_the_whole_demo_in_a_browser(tmp_path):
    page = build_demo(tmp_path / "report.html")
    with browser() as driver:
        for width, scheme in ((1400, "light"), (400, "dark"), (1400, "dark"), (400, "light")):
            look(driver, width, scheme)
            driver.get(page.as_uri())
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
            assert driver.execute_script(CONTRAST) >= 4.5
            assert len(driver.find_elements("css selector", "[data-widget] .controls")) == 3
        assert not problems(driver)
