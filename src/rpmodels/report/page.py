"""A self-contained HTML page from the folder of a run: no network, opens from disk."""

import base64
import html
import json
from pathlib import Path
from typing import Any

from rpmodels import errors
from rpmodels.persistence import write_text

_STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 60rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
tr { border-bottom: 1px solid var(--line); } img { max-width: 100%; height: auto; background: white; }
pre { overflow-x: auto; padding: .8rem; border: 1px solid var(--line); } .note { opacity: .75; }
"""

_ALT = {
    "accuracy": "Accuracy against the entropy of the average posterior for every seed, and confusion matrices",
    "learning_curve": "Free energy and its terms against the training step, below the ceiling",
}


def build_page(folder: Path, out: Path, force: bool = False) -> Path:
    """The page of one run; never replaces a file unless told to."""
    record = folder / "metrics.json"
    if not record.exists():
        raise errors.no_run(str(folder))
    if out.exists() and not force:
        raise errors.would_overwrite(str(out))
    metrics = json.loads(record.read_text(encoding="utf-8"))
    figures = "".join(_figure(path) for path in sorted(folder.glob("*.png")))
    title = f"{metrics['experiment']} ({metrics['preset']} preset)"
    seeds = len(metrics["rows"][0]["values"])
    write_text(
        out,
        f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>rpmodels: {html.escape(title)}</title><style>{_STYLE}</style></head>
<body><main>
<h1>rpmodels: {html.escape(title)}</h1>
<p>{seeds} seed(s), {metrics["seconds"]:.0f} s of computing. Scores are nats above independence per observation.</p>
<h2>Numbers</h2><div class="wide">{_table(metrics)}</div>
<h2>Pictures</h2>{figures}
<h2>How to make it again</h2>
<pre>rpmodels run {html.escape(metrics["experiment"])} --preset {html.escape(metrics["preset"])} --seeds {seeds}</pre>
<h2>Settings and versions</h2>
<pre>{html.escape(json.dumps({"settings": metrics["settings"], "versions": metrics["versions"]}, indent=1))}</pre>
</main></body></html>
""",
    )
    return out


def _table(metrics: dict[str, Any]) -> str:
    head = "<tr><th>model</th><th>metric</th><th>median</th><th>quartiles</th><th>the paper</th></tr>"
    lines = []
    for row in metrics["rows"]:
        name = " ".join(part for part in (row["model"], row["method"], row["condition"]) if part)
        cells = (name, row["metric"], f"{row['median']:.4g}", f"{row['q1']:.4g} – {row['q3']:.4g}", row["paper"] or "")
        lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    return f"<table>{head}{''.join(lines)}</table>"


def _figure(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    alt = html.escape(_ALT.get(path.stem, path.stem.replace("_", " ")))
    return f'<p><img src="data:image/png;base64,{data}" alt="{alt}"></p>'
