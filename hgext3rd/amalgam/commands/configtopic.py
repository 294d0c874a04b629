"""``hg help config.amalgam``: our part of Mercurial's help on configuration.

It is what the help of the extension says of it. Loaded with Mercurial's help only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import extensions, help as helpmod, pycompat

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT

_HEADING = b"Configuration\n=============\n"


def install() -> None:
    """Add a section to the topic ``config``."""
    helpmod.addtopichook(b"config", _with_section)


def _with_section(_ui: UiT, _topic: bytes, text: bytes) -> bytes:
    """Return the text of the topic with a section, if our help has not been removed."""
    ours = pycompat.getdoc(extensions.find(b"amalgam")) or b""
    _before, found, section = ours.partition(_HEADING)
    return text + b"\n``amalgam``\n-----------\n" + section if found else text
