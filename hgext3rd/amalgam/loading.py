"""Loads modules that several threads may be the first to use, as those of hgweb.

Mercurial puts off loading a module until something in it is used. Where two threads do
so at once, one of them finds the module empty, in Python before 3.11.9 and 3.12.3.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

_one_at_a_time = threading.RLock()


def load(*modules: ModuleType) -> None:
    """Load modules now, unless they are."""
    with _one_at_a_time:
        for module in modules:
            module.__doc__  # noqa: B018
