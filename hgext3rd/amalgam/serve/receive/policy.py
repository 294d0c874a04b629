"""Whether a repository takes pushes of git clients at all: ``amalgam.git.push``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...config import PushConfig, wants_serve
from ...terminal import utf8_of
from ..refusal import RefusedError

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

_READ_ONLY = (
    b"this repository is read-only for git; push with Mercurial, "
    b"or ask its operator to set amalgam.git.push = yes"
)
_LOCKED = b"this repository takes no pushes at the moment"


def check(repo: RepoT) -> None:
    """Raise ``RefusedError`` if the repository takes no pushes now."""
    config = PushConfig.from_ui(repo.ui)
    if not wants_serve(repo.ui):
        return  # all of git is refused, by another sentence
    if config.push == b"no":
        raise RefusedError(403, _READ_ONLY)
    if config.push == b"locked":
        if config.message:
            raise RefusedError(403, utf8_of(config.message))
        raise RefusedError(403, _LOCKED)
