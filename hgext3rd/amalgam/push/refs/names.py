"""How long the names of branches and tags are that a push may make.

Others would not be shown to git users (``gitstore.git.refs``).
"""

from __future__ import annotations

from mercurial.i18n import _

from ...gitstore.git.refs import LONGEST_NAME, LONGEST_PART, is_too_long
from .refcommands import PushRefusedError


def check_length(name: bytes) -> None:
    """Refuse ``name``, in UTF-8 and without prefix, if not every clone can have it."""
    if not name:
        raise PushRefusedError(_(b"the name is empty"))
    if is_too_long(name):
        raise PushRefusedError(
            _(
                b"the name is too long for clones: choose one with at most %d bytes "
                b"between slashes, and %d altogether"
            )
            % (LONGEST_PART, LONGEST_NAME)
        )
