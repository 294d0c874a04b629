"""Links between pages, as they are written for readers of the repository.

A page links to another one by its path: ``hosting.rst <hosting.rst>``. Here such a link
leads to the page that Sphinx made of it. A link to a directory, or to a file that is no
page, becomes plain text. A link to nothing is a warning, so the build fails. All
addresses elsewhere are listed in ``external-links.txt`` beside the pages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

_ELSEWHERE = re.compile(r"[a-z]+:|//")
_logger = logging.getLogger(__name__)


class PageLinks(SphinxTransform):
    """Makes links of this page to files links to pages."""

    default_priority = 5

    def apply(self, **_kwargs: Any) -> None:
        """Change the references of the document that is read."""
        for reference in list(self.document.findall(nodes.reference)):
            target = reference.get("refuri", "")
            if target.endswith("://"):  # of "http://...", which is no address
                _make_text(reference)
            elif target and not _ELSEWHERE.match(target):
                self._change(reference, target)

    def _change(self, reference: nodes.reference, target: str) -> None:
        name, _hash, anchor = target.partition("#")
        here = Path(self.env.doc2path(self.env.docname)).parent
        path = Path(os.path.normpath(here / name))
        if not path.exists():
            _logger.warning("link to '%s', which does not exist", target)
            return
        docname = self.env.path2doc(path)
        if docname is None or docname not in self.env.found_docs:
            _make_text(reference)
            return
        address = self.app.builder.get_relative_uri(self.env.docname, docname)
        reference["refuri"] = address + (f"#{anchor}" if anchor else "")
        reference["internal"] = True


def _make_text(reference: nodes.reference) -> None:
    reference.replace_self(nodes.inline("", "", *reference.children))


def list_elsewhere(app: Any, exception: Exception | None) -> None:
    """Write the addresses that pages link to, and which pages do."""
    if exception is not None:
        return
    pages: dict[str, set[str]] = {}
    for docname in sorted(app.env.found_docs):
        for reference in app.env.get_doctree(docname).findall(nodes.reference):
            target = reference.get("refuri", "")
            if _ELSEWHERE.match(target):
                pages.setdefault(target, set()).add(docname)
    lines = [
        f"{target} {' '.join(sorted(pages[target]))}\n" for target in sorted(pages)
    ]
    Path(app.outdir, "external-links.txt").write_text("".join(lines))


def setup(app: Any) -> dict[str, bool]:
    """Register the transform, and the list at the end."""
    app.add_transform(PageLinks)
    app.connect("build-finished", list_elsewhere)
    return {"parallel_read_safe": True}
