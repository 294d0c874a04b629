"""``hg help config.amalgam``: our part of Mercurial's help on configuration.

It is what the help of the extension says of it, with a definition for each item: ``hg
help config.amalgam.git.memory`` finds one. Loaded with Mercurial's help only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mercurial import extensions, help as helpmod, pycompat

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT

_HEADING = b"Configuration\n=============\n"
# an example of the section, up to the next line that is not indented
_EXAMPLE = re.compile(rb"::\n\n  \[amalgam\]\n((?:(?:  .*)?\n)+)")


def install() -> None:
    """Add a section to the topic ``config``."""
    helpmod.addtopichook(b"config", _with_section)


def _with_section(_ui: UiT, _topic: bytes, text: bytes) -> bytes:
    """Return the text of the topic with a section, if our help has not been removed."""
    ours = pycompat.getdoc(extensions.find(b"amalgam")) or b""
    _before, found, section = ours.partition(_HEADING)
    if not found:
        return text
    return text + b"\n``amalgam``\n-----------\n" + _EXAMPLE.sub(_define, section)


def _define(example: re.Match[bytes]) -> bytes:
    """Return what stands for an example: each item with its comment and its default."""
    definitions = []
    for paragraph in example[1].strip(b"\n").split(b"\n\n"):
        lines = [line.strip() for line in paragraph.splitlines()]
        said = b" ".join(line[2:] for line in lines if line.startswith(b"# "))
        said = said[:1].upper() + said[1:]
        for line in lines:
            name, equals, value = line.partition(b" =")
            if equals and not line.startswith(b"#"):
                default = b"(default: %s)" % (value.strip() or b"unset")
                definitions.append(b"``%s``\n    %s. %s\n" % (name, said, default))
    return b":\n\n" + b"\n".join(definitions) + b"\n"
