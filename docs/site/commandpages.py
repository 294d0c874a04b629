"""The reference of commands, made of the help that ``hg help COMMAND`` prints.

``.. amalgam-commands::`` becomes a section for each command, with its options. The help
of Mercurial is a subset of reStructuredText; its role ``:hg:`` is defined here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.parsers.rst import roles
from docutils.statemachine import StringList
from mercurial import pycompat
from sphinx.util.docutils import SphinxDirective

from hgext3rd.amalgam.commands import table


def hg_role(
    _name: str, rawtext: str, text: str, *_rest: Any
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Show a command of Mercurial."""
    return [nodes.literal(rawtext, f"hg {text}")], []


class CommandPages(SphinxDirective):
    """Sections for all commands of amalgam that are not for debugging."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        found: list[nodes.Node] = []
        for name, (func, options, *synopsis) in sorted(table.cmdtable.items()):
            if name.startswith(b"debug"):
                continue
            title = "hg " + pycompat.sysstr(name.lstrip(b"^"))
            section = nodes.section(ids=[nodes.make_id(title)], names=[title.lower()])
            section += nodes.title(title, title)
            usage = f"{title} {pycompat.sysstr(b''.join(synopsis[:1]))}"
            section += nodes.literal_block(usage, usage)
            self._parse(textwrap.dedent(_full_help(func)), section)
            self._parse("\n".join(_rows(options)), section)
            self.state.document.note_implicit_target(section)
            found.append(section)
        return found

    def _parse(self, text: str, parent: nodes.Element) -> None:
        lines = StringList(text.splitlines(), source="help of a command")
        self.state.nested_parse(lines, 0, parent)


def _full_help(func: Any) -> str:
    first, _newline, rest = pycompat.sysstr(pycompat.getdoc(func)).partition("\n")
    return f"{first[:1].upper()}{first[1:]}.\n{textwrap.dedent(rest)}"


def _rows(options: list[tuple[Any, ...]]) -> Iterator[str]:
    if not options:
        return
    yield from ("", ".. list-table::", "   :widths: 30 70", "")
    for short, long, _default, text, *value in options:
        names = [f"--{pycompat.sysstr(long)}"]
        if short:
            names.insert(0, f"-{pycompat.sysstr(short)}")
        shown = ", ".join(names) + "".join(
            f" {pycompat.sysstr(name)}" for name in value
        )
        yield f"   * - ``{shown}``"
        yield f"     - {pycompat.sysstr(text)}"


def setup(app: Any) -> dict[str, bool]:
    """Register the directive and the role."""
    roles.register_local_role("hg", hg_role)
    app.add_directive("amalgam-commands", CommandPages)
    return {"parallel_read_safe": True}
