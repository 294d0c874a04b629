"""Editing of dockets, and of the bundle register, line by line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from hgext3rd.amalgam import docketfile

Lines: TypeAlias = list[tuple[bytes, bytes]]
Change: TypeAlias = Callable[[Lines], Lines]


def edit(path: Path, change: Change) -> None:
    """Change the lines of a file; its title stays, and its checksum fits."""
    content = path.read_bytes()
    title = content.partition(b"\n")[0]
    lines = change(docketfile.parsed(content, title))
    path.write_bytes(docketfile.formatted(title, lines))


def given(key: str, *values: bytes) -> Change:
    """Return what puts lines in the place of the first one with ``key``, or first."""
    own = [(key.encode(), value) for value in values]

    def change(lines: Lines) -> Lines:
        places = [at for at, line in enumerate(lines) if line[0] == key.encode()]
        at = places[0] if places else 0
        return [*lines[:at], *own, *lines[at + len(places[:1]) :]]

    return change
