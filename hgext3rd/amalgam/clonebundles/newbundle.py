"""A new bundle: one file, generated and described, not published yet.

It is in a temporary directory of its own.
"""

from __future__ import annotations

import io
import os
import time
from typing import TYPE_CHECKING, Any

from ..config import GitConfig
from ..configitems import GIT_V2
from ..files import TEMPORARY, Directory, Placement
from ..gitstore.export import journal
from ..records import Record
from . import gitbundle, keys, objectstore, validity
from .formats import is_increment, kind_of, suffix_of, window_bytes
from .objectstore import streamed
from .register import Entry, Register, directory_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from mercurial.interfaces.types import RepoT


_FILE = b"bundle"


class NewBundle(Record):
    """A bundle that is not published yet."""

    entry: Entry
    """Its register entry, without a name, and without a size if it is a file."""
    directory: Directory
    """Where it is; nothing else is there."""
    store: str
    """The object store where it is, rather than in the directory; empty if it is a
    file."""

    @classmethod
    def of(
        cls, orig: Callable[[Any, RepoT, bytes], None], request: Any, repo: RepoT
    ) -> NewBundle:
        """Generate the bundle of ``request``. ``orig`` writes a bundle for Mercurial.

        The caller removes it; if this process is killed, the next generator does.
        ``StateError`` if a transaction was abandoned.
        """
        journal.refuse_abandoned(repo)
        parent = directory_of(repo)
        made = cls(
            _describe(repo, request),
            parent.sub(TEMPORARY + os.urandom(8).hex().encode()),
            objectstore.chosen_store(repo.ui),
        )
        made.directory.make(Placement.of(repo))
        try:
            if made.store:
                made._upload(orig, request, repo)
            else:
                made._write(orig, request, repo)
        except BaseException:
            made.remove()
            raise
        return made

    def open(self) -> BinaryIO:
        """Open the file to read it."""
        return os.fdopen(self.directory.open(_FILE), "rb")

    def rename(self, name: bytes) -> None:
        """Give the file, which has no name yet, its own."""
        self.directory.rename(_FILE, name)

    def remove(self) -> None:
        """Remove the remaining files."""
        Directory(self.directory.root, self.directory.below[:-1]).remove(
            self.directory.below[-1]
        )

    def _upload(
        self, orig: Callable[[Any, RepoT, bytes], None], request: Any, repo: RepoT
    ) -> None:
        """Let it be written into the store, under a key that is registered before."""
        entry = self.entry
        entry.path = self.store
        entry.key = keys.new_key(repo, suffix_of(request.bundle_type))
        client = objectstore.client_of(self.store)
        register = Register.read(repo)
        register.uploads[entry.key] = self.store
        register.write(repo)
        path = self.directory.join(_FILE)
        is_private = not objectstore.has_list(repo.ui)
        with streamed(client, entry.key, path, is_private=is_private) as upload:
            self._write(orig, request, repo)
        entry.bytes = upload.bytes
        entry.name = upload.digest + suffix_of(request.bundle_type).decode()
        if not kind_of(request.bundle_type):
            entry.window_bytes = window_bytes(io.BytesIO(upload.head))

    def _write(
        self, orig: Callable[[Any, RepoT, bytes], None], request: Any, repo: RepoT
    ) -> None:
        entry = self.entry
        kind = kind_of(request.bundle_type)
        if not kind:
            orig(request, repo, self.directory.join(_FILE))
            public = repo.filtered(b"immutable")
            entry.changesets = len(public.revs(b"::%ld", request.head_revs))
            if not self.store:
                with self.open() as file:
                    entry.window_bytes = window_bytes(file)
            return
        nodes = _nodes(repo, request)
        base = _place_in_chain(repo, entry) if kind == GIT_V2 else []
        with self._created(repo) as out:
            written = gitbundle.write(
                repo,
                GitConfig.from_ui(repo.ui),
                out,
                kind,
                nodes=nodes,
                base=base,
                public_only=True,
                tips_only=kind == GIT_V2,
            )
        entry.changesets = written.changesets
        entry.reached = validity.write_heads(repo, written.heads)

    def _created(self, repo: RepoT) -> BinaryIO:
        if self.store:
            return open(self.directory.join(_FILE), "wb")
        return os.fdopen(self.directory.create(_FILE, Placement.of(repo)), "wb")


def _nodes(repo: RepoT, request: Any) -> list[bytes]:
    node = repo.filtered(b"immutable").changelog.node
    return [node(rev) for rev in request.head_revs]


def _describe(repo: RepoT, request: Any) -> Entry:
    return Entry(
        name="",
        type=request.bundle_type.decode(),
        url="",
        path="",
        bytes=0,
        changesets=0,
        revs=request.revs,
        tip_rev=request.tip_rev,
        tip_node=request.tip_node.decode(),
        heads=validity.write_heads(repo, _nodes(repo, request)),
        made=time.time(),
        # before anything is read: the bundle may contain text censored from now on
        mark=validity.mark_of(repo) or "",
    )


def _place_in_chain(repo: RepoT, entry: Entry) -> list[bytes]:
    """Give ``entry`` its token, and return the nodes that it builds upon."""
    register = Register.read(repo)
    chain = [link.entry for link in validity.published_chain(repo)]
    base: list[bytes] = []
    if is_increment(entry.type.encode()):
        entry.token = register.last_token + 1
        entry.follows = chain[-1].token
        base = validity.read_heads(repo, chain[-1].reached)
    else:
        # the token of the bundle it replaces, or of an older one that clients may have
        replaced = [other.token for other in chain if other.heads == entry.heads]
        entry.token = max(replaced or [1, register.last_token])
    register.last_token = max(register.last_token, entry.token)
    register.write(repo)
    return base
