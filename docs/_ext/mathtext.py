"""Formulas drawn by matplotlib into the page itself: no network, no LaTeX, and the colour of the text around them."""

from html import escape

import numpy as np
from docutils import nodes
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextToPath

SIZE = 100.0
"""Units of an em: enough for coordinates without decimals."""
LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}
TO_PATH = TextToPath()


def drawn(latex: str) -> str:
    """One line of a formula as an SVG that grows with the letters around it."""
    text, font = f"${latex.strip()}$", FontProperties(size=SIZE, math_fontfamily="cm")
    # Both are in points of the size of the font, whatever the resolution of a picture would be.
    scale = SIZE / TO_PATH.FONT_SCALE
    places, codes = TO_PATH.get_text_path(font, text, ismath=True)
    places = np.asarray(places) * scale
    width, high, low = places[:, 0].max(), places[:, 1].max(), places[:, 1].min()
    strokes = " ".join(_strokes(places, codes, high))
    box = f"0 0 {width:.0f} {high - low:.0f}"
    look = f"width:{width / SIZE:.3f}em;height:{(high - low) / SIZE:.3f}em;vertical-align:{min(low, 0) / SIZE:.3f}em"
    return (
        f'<svg class="formula" role="img" aria-label="{escape(latex.strip())}" viewBox="{box}" style="{look}">'
        f'<path fill="currentColor" d="{strokes}"/></svg>'
    )


def _strokes(places, codes, high):
    """Commands with their numbers; upwards is less in SVG."""
    last = None
    for (x, y), code in zip(places, codes, strict=True):
        letter = LETTERS[code]
        if code == Path.CLOSEPOLY:
            yield letter
            last = None
            continue
        # A curve has two or three points, and its letter once.
        count = {Path.CURVE3: 2, Path.CURVE4: 3}.get(code, 1)
        if last is not None and last[0] == code and last[1] < count:
            last = (code, last[1] + 1)
            letter = ""
        else:
            last = (code, 1)
        yield f"{letter}{x:.0f} {high - y:.0f}"


def inline(translator, node):
    """In a line of text."""
    translator.body.append(f'<span class="math">{drawn(node.astext())}</span>')
    raise nodes.SkipNode


def block(translator, node):
    """On lines of its own; wide ones scroll by themselves."""
    lines = [line for line in node.astext().replace("&", "").split(r"\\") if line.strip()]
    inside = "".join(f"<div>{drawn(' '.join(line.split()))}</div>" for line in lines)
    translator.body.append(f'<div class="math-block" tabindex="0">{inside}</div>')
    raise nodes.SkipNode


def setup(app):
    """As a renderer of Sphinx."""
    app.add_html_math_renderer("mathtext", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
