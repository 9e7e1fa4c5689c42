"""Pages: their blocks, the demo's code, and their widgets in a real browser."""

import copy
import io
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import yaml

import data
import rpmodels as rp
from browser import CONTRAST, browser, look, needs_browser, problems
from registry import made
from rpmodels import errors
from rpmodels.errors import RPModelsError
from rpmodels.report import build_demo, examples, html, model_page, widgets
from rpmodels.report import demo as demo_page
from rpmodels.report.citing import PAPER
from rpmodels.report.contributions import contributions
from rpmodels.report.latents_section import conditions_of
from rpmodels.versions import __version__


def page_with_widgets() -> str:
    """All kinds of widgets, a table, a picture and code, from made-up numbers."""
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
    spiral = np.stack([np.cos(times), np.sin(times), times / 10], 1)
    paths = [
        widgets.SpacePath(0, spiral, False),
        widgets.SpacePath(0, spiral, True),
        widgets.SpacePath(1, -spiral, True),
    ]
    paths.append(widgets.SpacePath(1, np.array([[0.5, 0.5, 0.5]]), False))
    groups = [("left", "#3f90da"), ("right", "#ffa90e")]
    space = widgets.space("Latents in space", ("latent 0", "latent 1", "latent 2"), groups, paths)
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
        "A page", html.paragraph("lead"), html.section("One", *parts), html.section("Two", scrub, mosaic, space)
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
        turned_in_space(driver)
        assert not problems(driver)


def turned_in_space(driver):
    """Dragged, moved by the keyboard, and with a group that is hidden: where paths are is worked out here."""
    from selenium.webdriver import ActionChains  # noqa: PLC0415
    from selenium.webdriver.common.keys import Keys  # noqa: PLC0415

    svg = driver.find_element("css selector", "svg.space")
    sliders = driver.find_elements("css selector", ".slide input")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", svg)
    bold = "svg.space path[stroke='#3f90da'][stroke-width='3']"
    drawn = driver.find_element("css selector", bold).get_attribute("d")
    around, tilt = (float(each.get_attribute("value")) for each in sliders)
    assert in_space(driver, drawn) == pytest.approx(placed(around, tilt), abs=0.02)
    ActionChains(driver).drag_and_drop_by_offset(svg, 60, 20).perform()
    moved = [float(each.get_attribute("value")) for each in sliders]
    assert moved == pytest.approx([around + 30, tilt + 10], abs=1)
    drawn = driver.find_element("css selector", bold).get_attribute("d")
    assert in_space(driver, drawn) == pytest.approx(placed(*moved), abs=0.02)
    sliders[0].send_keys(Keys.ARROW_RIGHT)
    assert float(sliders[0].get_attribute("value")) == moved[0] + 1
    boxes = driver.find_elements("css selector", "figure[data-widget=space] input[type=checkbox]")
    boxes[1].click()
    hidden = driver.find_element("css selector", "svg.space path[stroke='#ffa90e']")
    assert hidden.value_of_css_property("display") == "none"
    boxes[2].click()
    thin = driver.find_element("css selector", "svg.space path[stroke='#3f90da'][stroke-width='0.8']")
    assert thin.value_of_css_property("display") == "none"


def in_space(driver, drawn):
    """Differences along a path, in units of the longest of them: they do not depend on scale and centre."""
    places = np.array([[float(v) for v in pair.split()] for pair in drawn[1:].split("L")])
    steps = np.diff(places, axis=0)
    return (steps / np.abs(steps).max()).ravel().tolist()


def placed(around, tilt):
    """The spiral of the page by rotation matrices: about the upright axis, then towards the eye."""
    times = np.arange(30)
    spiral = np.stack([np.cos(times), np.sin(times), times / 10], 1)
    a, b = np.deg2rad([around, tilt])
    upright = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    across, deep, high = (spiral @ upright.T).T
    steps = np.diff(np.stack([across, -high * np.cos(b) - deep * np.sin(b)], 1), axis=0)
    return (steps / np.abs(steps).max()).ravel().tolist()


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


# ---- the page of a model -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pairs():
    X, z = data.views(latents=3, width=5, noise=0.5)
    brief = {"max_iter": 8, "random_state": 0, "n_init": 1, "finish": "none", "retries": 0}
    return made(rp.RPFA, 3, **brief).fit(X), X, np.where(z[:, 0] > 0, "up", "down")


def test_the_page_says_what_the_model_is_and_shows_latents_by_condition(pairs):
    model, X, side = pairs
    page = model_page(model, X, "Views", conditions=side)
    told = "RPFA: 3 latents behind a (5 numbers) and b (5 numbers), from 60 observations."
    assert told in page
    assert "Latent 0 against latent 1, by condition" in page
    assert page.index("What to know") < page.index("<h2>Latents") < page.index("<h2>Learning")
    assert "@inproceedings{walker2023recognition" in page
    start = page.index('data-widget="space"')
    numbers = json.loads(page[page.index("{", start) : page.index("</script>", start)])
    assert [each["name"] for each in numbers["groups"]] == ["down", "up"]
    means = [each["points"][0] for each in numbers["paths"] if each["bold"]]
    Z = model.transform(X)
    np.testing.assert_allclose(means, [Z[side == name].mean(0) for name in ("down", "up")], atol=1e-4)
    assert sum(not each["bold"] for each in numbers["paths"]) == 40
    plain = model_page(model, X, "Views")
    assert "by condition" not in plain
    assert "all trials" in plain


def test_one_start_has_no_empty_picture_of_starts(pairs):
    model, X, _ = pairs
    model = copy.copy(model)
    model.restarts_ = model.restarts_[:1]
    assert "Free energies of all starts" not in model_page(model, X, "One start")


def test_what_factors_contribute_is_how_near_they_come(pairs):
    model, X, _ = pairs
    table = contributions(model, X, {})[1]
    every, alone = model.transform(X), model.transform({"a": X["a"]})
    design = np.column_stack([np.ones(len(alone)), alone])
    residual = every - design @ np.linalg.lstsq(design, every, rcond=None)[0]
    explained = 1 - residual.var(0).sum() / every.var(0).sum()
    assert re.search(r">a</td><td>([-\d.]+)<", table).group(1) == f"{explained:.2f}"
    assert "one factor" in contributions(model, X["a"], {})[0]


def test_labels_are_conditions_where_none_are_given():
    X, z = data.clusters(40, seed=4)
    X = {**X, "kind": np.array(["cat", "dog", "emu"])[z]}
    model = made(rp.RPCategorical, 3, max_iter=4, random_state=0, n_init=1, finish="none").fit(X)
    assert conditions_of(model, X, None) is X["kind"]
    assert conditions_of(model, X, z) is z
    assert conditions_of(model, {"a": X["a"]}, None) is None
    assert "Probabilities by condition" in model_page(model, X, "Kinds")


def test_the_citation_file_says_what_the_page_says():
    cited = yaml.safe_load((Path(__file__).parent.parent / "CITATION.cff").read_text(encoding="utf-8"))
    paper = cited["preferred-citation"]
    assert cited["version"] == __version__
    assert f"title = {{{paper['title']}}}" in PAPER
    for author in paper["authors"]:
        assert f"{author['family-names']}, {author['given-names']}" in PAPER
    assert str(paper["year"]) in PAPER
