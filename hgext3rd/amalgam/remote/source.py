"""The refs to replicate, read once for all remotes, and whether a remote has them.

Asks no remote.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..records import Record
from .ledger import Ledger, read_only
from .storerefs import StoreRefs

if TYPE_CHECKING:
    from ..gitstore.git.repository import Repository
    from .targets import Target

_TRIES = 20


class ReplicaSource(Record):
    """The refs to replicate, read once for all remotes."""

    repository: Repository
    refs: StoreRefs
    names_state: object
    """State of the files that they were read from."""
    files_state: object
    """State of the Mercurial repository that has these refs; None if not known."""
    scratch: bytes
    """A directory for staging repositories."""

    def look(self, target: Target) -> bytes:
        """Return the state that ``Ledger.look`` has if nothing is to do."""
        return look_of(self.names_state, self.files_state, target)

    @classmethod
    def read(
        cls, repository: Repository, files_state: object, scratch: bytes
    ) -> ReplicaSource:
        """Read the refs of ``repository`` as they are at one moment.

        ``StateError`` if they keep changing.
        """
        for _try in range(_TRIES):
            state = repository.names_state()
            refs = StoreRefs(repository.packed_refs())
            if repository.names_state() == state:
                return cls(repository, refs, state, files_state, scratch)
        raise error.StateError(
            _(b"refs kept changing while they were read"),
            hint=_(b"run 'hg git::push' again"),
        )


def look_of(names_state: object, files_state: object, target: Target) -> bytes:
    """Return a digest of names and configuration, and one of the repository's files."""
    names = (names_state, target.map.text, target.config.prune)
    digests = (
        hashlib.sha1(repr(it).encode()).hexdigest().encode()
        for it in (names, files_state)
    )
    return b"-".join(digests)


def is_settled(target: Target, look: bytes, *, is_exact: bool = True) -> bool:
    """Return whether nothing is to do, and no ref is refused.

    Without ``is_exact``, only names have to be the same.
    """
    ledger = read_only(target.directory, target.placement)
    if ledger is None or ledger.intents or ledger.refused:
        return False
    if Ledger.url(target.directory) != target.remote.url:
        return False
    if is_exact:
        return ledger.look == look
    return ledger.look.partition(b"-")[0] == look.partition(b"-")[0]
