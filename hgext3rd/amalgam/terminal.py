"""Strings that others wrote, in a form that a terminal can be given.

Names of bookmarks and files, URLs, and what is left of a failure may contain control
characters. A terminal would obey them.
"""

from __future__ import annotations

import re

# C0 controls and DEL; and C1 controls as UTF-8
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f]")


def printable(text: bytes) -> bytes:
    r"""Return ``text`` with each control character as ``\xNN``."""
    return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in found[0])
