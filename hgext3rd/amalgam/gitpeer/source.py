"""A git repository as a remote: its address, its refs, and git's way to it.

Knows which ref Mercurial's users mean, and nothing of changesets.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import weakref
from typing import TYPE_CHECKING, Any

from mercurial import encoding, error, util
from mercurial.i18n import _
from mercurial.utils import urlutil

from ..config import GitConfig, setting
from ..configitems import HGGIT_DIALECT
from ..gitstore.git.process import Git
from ..remote import urls
from ..remote.transport import (
    Advertised,
    RemoteFailureError,
    Transport,
    access_of,
)
from . import addresses

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import RepoT, UiT

    from ..receive.importing import Messages

HEAD = b"HEAD"
HEADS = b"refs/heads/"
TAGS = b"refs/tags/"
NOTES = b"refs/notes/"
_SILENT_SECONDS = 600
"""The longest silence of git."""
_OID_LEN = 40
# a host that ssh would take for an option
_OPTION = re.compile(rb"[a-z+]*ssh://((?:-|%2[dD])[^/]*)")
repositories: weakref.WeakKeyDictionary[UiT, weakref.ref[RepoT]]
repositories = weakref.WeakKeyDictionary()
"""Repositories whose commands made a ui for a remote."""


def address_of(location: bytes, base: bytes | None = None) -> urls.RemoteUrl:
    """Return the address that git takes, for a location of Mercurial's.

    Paths are relative to ``base``, or to the working directory.
    """
    if location.startswith(b"file://"):
        local = urlutil.urllocalpath(location)
        if addresses.is_repository(local):
            location = local  # as Mercurial makes peers of it
    return urls.parsed(location, base or os.getcwdb())


def name_of(location: bytes) -> bytes:
    """Return the name of a directory for a clone of ``location``."""
    path = location.partition(b"#")[0].rstrip(b"/").removesuffix(b"/.git")
    return path.replace(b":", b"/").rpartition(b"/")[2].removesuffix(addresses.SUFFIX)


def shown(name: bytes) -> bytes:
    """Return a name of git in the encoding of the user.

    If that cannot express it, ``encoding.fromlocal`` still returns ``name``, but not
    that of a part of it, or of more.
    """
    found: bytes = encoding.tolocal(name)
    return found


class GitSource:
    """A git repository that is pulled from."""

    def __init__(self, ui: UiT, path: Any, name: bytes = b"") -> None:
        """``path`` is a path object of Mercurial's, or the location itself."""
        self.ui = ui
        self.location: bytes = getattr(path, "loc", path)
        asking = repositories.get(ui)
        self.repo: RepoT | None = asking() if asking else None
        """The repository that asks."""
        chosen = setting((self.repo or self).ui, b"amalgam", b"git.dialect")
        if chosen == HGGIT_DIALECT and (host := _OPTION.match(self.location)):
            raise error.Abort(
                _(b"potentially unsafe hostname: '%s'") % util.urlreq.unquote(host[1])
            )
        self.remote = address_of(self.location)
        self.name = name
        """Of the remote that is followed; others are named by ``[paths]``."""
        self.git = Git(GitConfig.from_ui(ui).program)
        self.looked_up: list[bytes] = []
        """Refs and oids of revisions that somebody asked for."""
        self.imported_heads = 0
        """As ``cgresult`` of Mercurial, for commits that were imported for them."""
        self.told_later: Messages = []
        """Messages about imports, for the end of a pull."""
        self.map_only = 0
        """Imported commits that changesets may not give back."""
        self.asked_ns = 0
        """When the refs were asked for first."""
        self._has_begun = False
        self._bar: Any = None

    def pulls_into(self, repo: RepoT) -> None:
        """Let ``repo`` be the repository that asks."""
        self.repo = repo

    def begins(self) -> bool:
        """Return whether this is the first call: hooks are told once of an import."""
        has_begun, self._has_begun = self._has_begun, True
        return not has_begun

    def note_import(self, heads: int) -> None:
        """Keep ``cgresult`` of an import for the pull that follows."""
        self.imported_heads = heads or self.imported_heads

    def note_map_only(self, commits: int) -> None:
        """Count imported commits that changesets may not give back."""
        self.map_only += commits

    @property
    def transport(self) -> Transport:
        """Return git for this remote, with a progress bar."""
        return self.connected(self.git)

    def connected(self, git: Git) -> Transport:
        """Return git for this remote, with the objects that ``git`` sees."""
        access = access_of(self.ui, git, self.remote, in_background=False)
        return Transport(git, self.remote, access, _SILENT_SECONDS, self._progress)

    def _progress(self, topic: bytes, position: int, total: int) -> None:
        if self._bar is None or self._bar.topic != topic.lower():
            self.close()
            self._bar = self.ui.makeprogress(topic.lower())
        self._bar.update(position, total=total)

    @util.propertycache
    def listing(self) -> bytes:
        """The refs of the remote, when they were asked for first, as git prints them.

        100,000 refs are some 6 MB.
        """
        self.asked_ns = time.time_ns()
        try:
            return self.transport.listing()
        except RemoteFailureError as exc:
            raise self.failed(exc) from None

    @util.propertycache
    def listed(self) -> bytes:
        """A digest of the listing."""
        return hashlib.sha1(self.listing, usedforsecurity=False).digest()

    @util.propertycache
    def advertised(self) -> Advertised:
        """The refs of the remote, when they were asked for first."""
        return Advertised.parsed(self.listing)

    def ask_again(self, wanted: Iterable[bytes]) -> None:
        """Ask for the refs as they are now; ``RepoLookupError`` if one is gone.

        Another process has pulled or pushed meanwhile.
        """
        for name in (b"listing", b"listed", b"advertised"):
            util.clearcachedproperty(self, name)
        for ref in wanted:
            if ref not in self.advertised.oids:
                self.ref(ref)

    @property
    def chosen(self) -> UiT:
        """The ui with the settings of the repository that asks, if one does."""
        return self.repo.ui if self.repo else self.ui

    @property
    def is_of_hggit(self) -> bool:
        """Whether it is to look as with hg-git."""
        return setting(self.chosen, b"amalgam", b"git.dialect") == HGGIT_DIALECT

    def refs(self, key: bytes) -> list[bytes]:
        """Return the refs that ``key`` means: one, or those of ``PREFIX/*``; or an oid.

        ``RepoLookupError`` if there is none; with hg-git, also for a name that is a
        branch and a tag.
        """
        name, oids = encoding.fromlocal(key), self.advertised.oids
        if name.endswith(b"/*"):
            spaces = (HEADS + name[:-1], TAGS + name[:-1])
            if found := sorted(it for it in oids if it.startswith(spaces)):
                return found
        found = [space + name for space in (HEADS, TAGS) if space + name in oids]
        if len(found) > 1 and self.is_of_hggit:
            raise error.RepoLookupError(
                _(b"ambiguous reference %s: %s") % (key, b", ".join(found))
            )
        return [self.ref(key)]

    def ref(self, key: bytes) -> bytes:
        """Return the name of the ref that ``key`` means, or an oid.

        ``RepoLookupError`` if there is none.
        """
        oids = self.advertised.oids
        if key in (b"tip", b"."):
            key = HEAD
        name = encoding.fromlocal(key)
        for prefix in (HEADS, TAGS, b"refs/", b""):
            if prefix + name in oids:
                ref = prefix + name
                return self.advertised.head or ref if ref == HEAD else ref
        if len(key) == _OID_LEN and not key.strip(b"0123456789abcdef"):
            refs = (*self.looked_up, *oids)
            found = [ref for ref in refs if self.advertised.commit(ref) == key]
            return found[0] if found else key
        hint = _(b"name a branch or tag of the remote, or 40 digits of a commit")
        raise error.RepoLookupError(
            _(b"unknown revision '%s'") % key, hint=None if self.is_of_hggit else hint
        )

    def close(self) -> None:
        """End the progress bar."""
        if self._bar is not None:
            self._bar.complete()

    def failed(
        self, exc: RemoteFailureError, hint: bytes = b"", act: bytes = b"read"
    ) -> error.RemoteError:
        """Return the error for a user; ``act``: the thing that git could not do."""
        reason, shown_url = exc.reason.rstrip(b"."), self.remote.shown
        return error.RemoteError(
            _(b"git cannot %s '%s': %s") % (act, shown_url, reason),
            hint=hint or _(b"see whether 'git ls-remote %s' works") % shown_url,
        )
