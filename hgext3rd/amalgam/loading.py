"""When modules are loaded: Mercurial puts it off until something in them is used.

``load`` is for those that several threads may be the first to use, as those of hgweb:
one of them would find the module empty, in Python before 3.11.9 and 3.12.3. A statement
``import`` can be what loads a module that another thread has just begun to put off: so
where it is in a function that threads call, they hold ``one_at_a_time``.
``when_loaded`` is for those that we have to change, and need not load for it.
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

one_at_a_time = threading.RLock()


def load(*modules: ModuleType) -> None:
    """Load modules now, unless they are."""
    with one_at_a_time:
        for module in modules:
            module.__doc__  # noqa: B018


def when_loaded(module: ModuleType, call: Callable[[], None]) -> None:
    """Call ``call`` when ``module`` has been loaded, at once if it is.

    Else whoever is the first to use something in it finds it done.
    """
    if type(module) is ModuleType:
        call()
        return
    # to ask the module itself would load it; importlib.util has put the loader there
    spec = object.__getattribute__(module, "__spec__")
    spec.loader = _Announcing(spec, call)


class _Announcing:
    """The loader of one module that is put off; it calls somebody when it is done."""

    def __init__(self, spec: Any, call: Callable[[], None]) -> None:
        self._spec = spec
        self._loader = spec.loader
        self._call = call

    def exec_module(self, module: ModuleType) -> None:
        """Load the module."""
        self._spec.loader = self._loader
        self._loader.exec_module(module)
        self._call()
