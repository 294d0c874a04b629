"""What is advertised: the state of Mercurial's extension, with what the register knows.

Only looks. A bundle counts only as long as all that is in it is public here, and its
file, if it is on this machine, is there. The extension reads its state as ``bundles``
does, so it thinks so, too.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from hgext import clonebundles
from mercurial import error
from mercurial.i18n import _

from ...config import CINNABAR_V1, GitConfig
from ...gitstore.state import censorship
from ...gitstore.store import has_foreign_ids
from ...placement import Directory
from . import directories, headset, urls
from .chain import Link, chain_of
from .objectstore import stored
from .register import HERE, Register

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from .register import Entry


_STATE_LIMIT_BYTES = 1 << 20


def state(repo: RepoT) -> list[Any]:
    """Return the bundles in the state file; ``StorageError`` if it is damaged."""
    directory, name = Directory(repo.path), clonebundles.AUTO_GEN_FILE
    try:
        content = directory.tryread(name, _STATE_LIMIT_BYTES)
        return list(clonebundles.parse_auto_gen(content))
    except (OSError, ValueError):
        raise error.StorageError(
            _(b"state of clone bundles is damaged: '%s'") % directory.join(name),
            hint=_(b"remove it, and run 'hg admin::clone-bundles-refresh'"),
        ) from None


class PublishedBundle:
    """A bundle that is ready, in the state of Mercurial's extension.

    It has the attributes of the extension's own, for which it stands.
    """

    def __init__(self, state: Any, register: Register) -> None:
        self._state = state
        name = os.fsdecode(state.basename)
        self.entry = register.entries.get(name)
        """What the register knows; ``None`` if the extension published it itself."""
        self.mark = self.entry.mark if self.entry else register.others.get(name, "")
        """The mark of censorings from before it was made."""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the extension's bundle."""
        return getattr(self._state, name)

    def __eq__(self, other: object) -> bool:
        """Tell what the extension's bundle says."""
        return bool(self._state == other)

    def valid_for(self, repo: RepoT) -> bool:
        """Tell whether clients may be told of it, and its file is there."""
        if not self._state.valid_for(repo) or not self.may_be_named(repo):
            return False
        return self.entry is None or is_there(repo, self.entry)

    def may_be_named(self, repo: RepoT) -> bool:
        """Tell whether clients may be told of it, be its file there or not."""
        if self.entry is None:
            return bool(self.mark == mark_of(repo))
        return may_be_named(repo, self.entry)


def bundles(repo: RepoT) -> list[Any]:
    """Return the bundles in the state, those that are ready as ``PublishedBundle``."""
    found = state(repo)
    if not found:
        return found
    register = Register.read(repo)
    return [PublishedBundle(it, register) if it.ready else it for it in found]


def mark_of(repo: RepoT) -> str | None:
    """Return the mark of censorings; ``None``, which no bundle has, if it is damaged.

    A bundle that was made before the mark was set may have a censored text.
    """
    try:
        return censorship.mark_of(repo)
    except (OSError, error.StorageError):
        return None


def outlived(repo: RepoT) -> list[Any]:
    """Return the bundles in the state that must not be named any more."""
    found = clonebundles.read_auto_gen(repo)
    return [it for it in found if it.ready and not it.may_be_named(repo)]


def may_be_read(repo: RepoT, entry: Entry) -> bool:
    """Tell whether who reads ``repo`` may read a bundle."""
    return entry.mark == mark_of(repo) and headset.is_public(repo, entry.heads)


def is_sound(repo: RepoT, entry: Entry) -> bool:
    """Tell whether what the register says of a bundle still holds."""
    return is_there(repo, entry) and may_be_named(repo, entry)


def may_be_named(repo: RepoT, entry: Entry) -> bool:
    """Tell whether clients may be told of a bundle, be its file there or not."""
    return not is_exposed(repo, entry) and may_be_read(repo, entry)


def is_there(repo: RepoT, entry: Entry) -> bool:
    """Tell whether the file of a bundle is as it was, if it is on this machine."""
    if not entry.path:
        return True
    if entry.key:
        return stored.is_ours(repo, entry)  # it was, when a generator looked last
    directory = directories.directory_at(repo, entry.path)
    if directory is None:
        return False
    try:
        found = directory.stat(entry.name.encode())
    except (OSError, error.StorageError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == entry.bytes


def is_exposed(repo: RepoT, entry: Entry) -> bool:
    """Tell whether a bundle is elsewhere, though bundles may not be: not any more."""
    if entry.key:
        return stored.is_exposed(repo, entry)
    return entry.path != HERE and not urls.may_leave(repo.ui)


def may_reach_git(repo: RepoT) -> bool:
    """Tell whether it is known what git clients may have (``amalgam.git.*``).

    Else they get nothing; ``admin::amalgam`` says why.
    """
    try:
        GitConfig.from_ui(repo.ui)
    except error.ConfigError as exc:
        repo.ui.log(b"amalgam", b"no bundles for git: %s\n", exc.message)
        return False
    return True


def chain(repo: RepoT) -> list[Link]:
    """Return the bundles for git that build upon each other, base first."""
    bundles = clonebundles.read_auto_gen(repo)
    return chain_of(bundles, lambda bundle: bundle.valid_for(repo))


def cinnabar(repo: RepoT) -> Entry | None:
    """Return the bundle for git-cinnabar, if there is one.

    None counts that was made before commits with other ids were adopted.
    """
    if has_foreign_ids(repo):
        return None
    found = [
        bundle
        for bundle in clonebundles.read_auto_gen(repo)
        if bundle.ready and bundle.bundle_type == CINNABAR_V1
        if bundle.entry is not None and bundle.valid_for(repo)
    ]
    return max(found, key=lambda bundle: bundle.revs).entry if found else None
