"""The native core: Rust behind a C ABI, bytes in and bytes out.

``errors.call`` makes a short call and ``operation.Operation`` a long one; ``buffers``
passes bytes. ``_core`` is compiled by ``_build``; its C names are those of
``rust/capi/include/amalgam.h``. The rules are in ``docs/boundary.rst``.
"""

from __future__ import annotations

from mercurial import error
from mercurial.i18n import _

# Loaded at once. Mercurial imports modules lazily; from Python 3.13 on, one that is not
# loaded cannot be imported again, as `from ..core._core` would do if it loads this
# package.
try:
    from ._core import lib  # noqa: F401
except ImportError as exc:
    raise error.Abort(
        _(b"native core of amalgam cannot be loaded: %s") % str(exc).encode(),
        hint=_(b"install hg-amalgam with pip, or run 'make local' in its source tree"),
    ) from exc
