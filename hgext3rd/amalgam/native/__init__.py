"""The native core: Rust behind a C ABI, bytes in and bytes out.

``errors.call`` makes a short call and ``operation.Operation`` a long one; ``buffers``
passes bytes. ``_core`` is compiled by ``_build``; its C names are those of
``rust/capi/include/amalgam.h``. The rules are in ``docs/boundary.rst``.
"""

from __future__ import annotations

from mercurial import error
from mercurial.i18n import _

try:
    from . import _core  # noqa: F401
except ImportError as exc:
    raise error.Abort(
        _(b"native core of amalgam cannot be loaded: %s") % str(exc).encode(),
        hint=_(b"install hg-amalgam with pip, or run 'make local' in its source tree"),
    ) from exc
