"""Lazy imports: Mercurial loads a module when something in it is first used.

In Python before 3.11.9 and 3.12.3, a thread may find such a module empty while another
thread loads it. hgweb answers requests in threads. So a function that hgweb calls first
calls ``load`` with its own module, and holds ``one_at_a_time`` where it imports others.
``load_everything`` is for a server that is about to start threads: Mercurial's own
modules have the same race.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from types import ModuleType

one_at_a_time = threading.RLock()

_PACKAGE = __name__.rpartition(".")[0] + "."
_whole: set[ModuleType] = set()

HAS_RACE = sys.version_info < (3, 11, 9) or (3, 12) <= sys.version_info < (3, 12, 3)
"""Whether a thread may find a module empty that another has begun to load."""


def load(*modules: ModuleType) -> None:
    """Load modules now, with their imports while other threads run.

    Imports are followed through modules of amalgam, and not beyond.
    """
    if _whole.issuperset(modules):
        return
    with one_at_a_time:
        for module in modules:
            module.__doc__  # noqa: B018
        if not HAS_RACE or threading.active_count() == 1:
            return
        found, pending = set(modules), [*modules]
        while pending:
            for module in [*vars(pending.pop()).values()]:
                if isinstance(module, ModuleType) and module not in found:
                    found.add(module)
                    if module.__name__.startswith(_PACKAGE):
                        pending.append(module)
        _whole.update(found)


def load_everything() -> None:
    """Finish all lazy imports before the first thread starts.

    That takes 0.2 seconds of a server's start, and 0.4 with the extension clonebundles
    (2026-11-22, Python 3.11.7). A module that cannot be loaded stays lazy.
    """
    tried: set[str] = set()
    is_cgi = "GATEWAY_INTERFACE" in os.environ  # a process for each request
    while HAS_RACE and not is_cgi:
        put_off = {
            name: module
            for name, module in [*sys.modules.items()]
            if type(module).__name__ == "_LazyModule" and name not in tried
        }
        if not put_off:
            return
        tried.update(put_off)
        for module in put_off.values():
            with contextlib.suppress(Exception):
                load(module)
