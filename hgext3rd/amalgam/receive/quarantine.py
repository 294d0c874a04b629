"""The quarantine of one push: an empty git repository that borrows objects.

git receives into it. It sees the objects of the git store, but nothing gets from here
into the store: accepted commits become changesets, and an export converts these. It is
removed with the push. If the process is killed, the next
one removes it (``scratch``). Only git writes here, and only packs.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ..files import Directory, Placement
from ..gitstore.git import layout
from ..gitstore.git.process import CONFIG, Git
from ..scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..gitstore.store import GitStore

HOOKS = b"hooks"
_HOOK = b"proc-receive"
_CONFIG = b"""\
[core]
\trepositoryFormatVersion = 0
\tfileMode = true
\tbare = true
"""


class Quarantine:
    """A receiving repository."""

    def __init__(self, store: GitStore, directory: Directory) -> None:
        """Make it in ``directory``, which is empty; it borrows from ``store``."""
        self.directory = directory
        self.hooks = directory.join(HOOKS)
        self._store = store
        self._packs: frozenset[str] = frozenset()
        """Packs of the store when they were noted."""
        self._own = Placement(0o700, os.geteuid(), os.getegid())
        self.git = Git(store.config.program, directory, lender=store.repository.git)
        layout.complete(directory, self._own)
        self._put(CONFIG, _CONFIG)

    def note_packs(self) -> None:
        """Note the packs that the store has now."""
        self._packs = frozenset(self._store.docket().packs)

    def put_refs(self, content: bytes) -> None:
        """Let git see the refs in ``content``, in the form of ``packed-refs``."""
        self._put(b"packed-refs", content)
        self._put(b"HEAD", self._store.repository.head_content() or layout.HEAD)

    def has_lost_packs(self) -> bool:
        """Return whether packs were removed from the store since they were noted.

        Then git may lack objects that the client takes for known.
        """
        return not self._packs.issubset(self._store.docket().packs)

    def write_hook(self, script: bytes) -> None:
        """Let git run ``script`` for the refs that are pushed (githooks(5))."""
        hooks = self.directory.sub(HOOKS)
        hooks.make(self._own)
        hooks.replace(_HOOK, script, self._own, executable=True, durable=False)

    def _put(self, name: bytes, content: bytes) -> None:
        self.directory.replace(name, content, self._own, durable=False)


@contextlib.contextmanager
def receiving(store: GitStore) -> Iterator[Quarantine]:
    """Make a receiving repository that lasts as long as the context."""
    with scratch(store.repo) as path:
        yield Quarantine(store, Directory(path))
