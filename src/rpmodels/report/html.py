"""The blocks that pages are built from. A page is one file: styles, script, pictures and numbers are inside it."""

import base64
import html
import io
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes


def escaped(text: object) -> str:
    """Text that a page shows as it is."""
    return html.escape(str(text))


def document(title: str, lead: str, *sections: str) -> str:
    """The whole page; `lead` is HTML."""
    style, script = (_static(name) for name in ("report.css", "report.js"))
    body = "\n".join(sections)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}</title><style>{style}</style></head>
<body><main>
<h1>{escaped(title)}</h1>
{lead}
{body}
</main><script>{script}</script></body></html>
"""


def section(title: str, *parts: str) -> str:
    """A heading and what is under it."""
    return "\n".join([f"<section><h2>{escaped(title)}</h2>", *parts, "</section>"])


def paragraph(text: str) -> str:
    """One paragraph of plain text."""
    return f"<p>{escaped(text)}</p>"


def facts(values: Mapping[str, object]) -> str:
    """A few numbers with their names."""
    cells = "".join(f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>" for name, value in values.items())
    return f'<dl class="facts">{cells}</dl>'


def table(head: Sequence[str], rows: Sequence[Sequence[object]], text_columns: int = 1) -> str:
    """Numbers to the right, the first columns to the left."""

    def line(cells: Sequence[object], tag: str) -> str:
        kinds = [' class="text"' if number < text_columns else "" for number in range(len(cells))]
        return "".join(f"<{tag}{kind}>{escaped(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    inside = f"<thead><tr>{line(head, 'th')}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide" tabindex="0"><table>{inside}</table></div>'


def code(text: str, summary: str | None = None) -> str:
    """A program, folded under a line where there is one."""
    block = f'<pre tabindex="0"><code>{escaped(text)}</code></pre>'
    return block if summary is None else f"<details><summary>{escaped(summary)}</summary>{block}</details>"


def picture(source: Path | Axes, alt: str, caption: str = "") -> str:
    """A PNG file, or a plot, which is closed."""
    if isinstance(source, Axes):
        figure = source.get_figure(root=True)
        assert figure is not None  # axes are always in a figure
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130)
        plt.close(figure)
        data = buffer.getvalue()
    else:
        data = source.read_bytes()
    below = f"<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    return f'<figure><img src="{data_url(data)}" alt="{escaped(alt)}">{below}</figure>'


def data_url(png: bytes) -> str:
    """A PNG as an address that needs no network."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def widget(kind: str, numbers: Mapping[str, Any]) -> str:
    """Something to play with (static/report.js), and the numbers it needs."""
    inside = json.dumps(numbers, allow_nan=False).replace("</", "<\\/")
    script = f'<script type="application/json">{inside}</script>'
    return f'<figure class="widget" data-widget="{escaped(kind)}">{script}</figure>'


def _static(name: str) -> str:
    return resources.files("rpmodels.report").joinpath("static", name).read_text(encoding="utf-8")
