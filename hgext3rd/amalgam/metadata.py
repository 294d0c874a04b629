"""Version and compatibility; setup.py reads this file without importing it."""

from __future__ import annotations

import os

__version__ = b"0.1.0"
testedwith = b"6.9 7.0 7.1 7.2"
minimumhgversion = b"6.9"
# "please report the bug to ...": there is no tracker yet
buglink = b"the place where you got hg-amalgam from"

_DIGITS = b"0123456789abcdef"
_LONGEST = 80


def getversion() -> bytes:
    """Return the version, and after a ``+`` the commit that was built.

    setup.py writes that into a file. Another ``+`` at the end: of changed files.
    """
    try:
        with open(os.path.join(os.path.dirname(__file__), "COMMIT"), "rb") as file:
            commit = file.read(_LONGEST).strip()
    except OSError:
        return __version__
    digits = commit.removesuffix(b"+")
    if not 7 <= len(digits) <= 64 or digits.strip(_DIGITS):  # not by a pattern: slow
        return __version__
    return b"%s+%s" % (__version__, commit)
