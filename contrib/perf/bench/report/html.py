"""Pages in one file, which fetch nothing; light or dark, as the reader has it."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_STYLE = """
:root { color-scheme: light dark; --text: #222; --back: #fff; --line: #ddd;
        --soft: #f3f3f3; --mark: #2f6690; --dim: #666; }
@media (prefers-color-scheme: dark) {
  :root { --text: #ddd; --back: #131416; --line: #383b40; --soft: #25272b;
          --mark: #7fb2dc; --dim: #a0a4aa; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 54em; margin: 2em auto;
       padding: 0 1em; color: var(--text); background: var(--back); }
h2 { margin-top: 2em; border-bottom: 2px solid var(--mark); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.8em 0 1.6em; font-size: 14px; }
th, td { padding: 0.2em 0.7em; text-align: right;
         border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
tr.differs td:last-child { font-weight: bold; }
img { width: 100%; max-width: 45em; height: auto; }
code { background: var(--soft); padding: 0 0.2em; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--mark); margin: 1em 0; }
.facts { color: var(--dim); font-size: 14px; overflow-wrap: anywhere; }
"""


def document(title: str, body: Iterable[str]) -> str:
    """Return a page."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *body,
            "</body></html>",
            "",
        ]
    )


def picture(title: str, svg: str) -> str:
    """Return a drawing, with its title for who cannot see it."""
    source = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{source}"/>'


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    marked: set[int] | None = None,
) -> str:
    """Return a table; rows whose numbers are ``marked`` have a bold last cell."""
    parts = ['<div class="wide"><table><thead><tr>']
    parts += [f"<th>{escape(cell)}</th>" for cell in head]
    parts.append("</tr></thead><tbody>")
    for number, row in enumerate(rows):
        parts.append('<tr class="differs">' if number in (marked or ()) else "<tr>")
        parts += [f"<td>{escape(cell)}</td>" for cell in row]
        parts.append("</tr>")
    parts.append("</tbody></table></div>")
    return "".join(parts)
