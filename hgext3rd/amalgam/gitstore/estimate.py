"""Estimate of a first export: disk space and processor time, from the indexes alone.

Owns the rates. ``docs/decisions/forecast.rst`` has their measurement and errors. Writes
nothing, and reads no text.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mercurial.i18n import _

from ..records import Record
from . import requirements

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from .store import GitStore

# bytes below .hg/amalgam for each byte, or for each item, in the Mercurial store
_DISK_OF_FILE_BYTE = 1.01
_DISK_OF_MANIFEST_BYTE = 0.44
_DISK_OF_CHANGESET = 1280
_DISK_OF_FILE_REVISION = 107
_DISK_OF_LEVEL = 133
# seconds of processor time, all cores together
_SECONDS_OF_START = 0.3
_SECONDS_OF_TEXT_BYTE = 0.47e-9
_SECONDS_OF_FILE_BYTE = 48e-9
_SECONDS_OF_CHANGESET = 17.6e-6
_SECONDS_OF_FILE_REVISION = 1.6e-6
_SECONDS_OF_LEVEL = 2.4e-6


class Amount(Record):
    """Revisions of revlogs; ``Amount()`` is none."""

    revisions: int = 0
    stored_bytes: int = 0
    """As they are compressed, without the indexes."""
    text_bytes: int = 0

    def plus(self, other: Amount) -> Amount:
        """Return both together."""
        return Amount(*map(sum, zip(self, other, strict=True)))

    @classmethod
    def of(cls, storage: Any) -> Amount:
        """Count the revisions and bytes of a revlog's index."""
        index = storage.get_revlog().index
        entries = [index[rev] for rev in range(len(index))]
        return cls(
            len(entries),
            sum(entry[1] for entry in entries),
            sum(max(entry[2], 0) for entry in entries),
        )


class Contents(Record):
    """Counts of a Mercurial store, secret and hidden changesets included."""

    changesets: Amount
    manifests: Amount
    file_revisions: Amount
    files: int
    levels: int
    """Directories above file revisions, one by one: most have to be written anew."""

    @classmethod
    def of(cls, repo: RepoT) -> Contents:
        """Read all indexes; ``Abort`` if an export could not read the store.

        Takes a tenth to a fifth of the time of an export, on one core.
        """
        requirements.check(repo)
        repo = repo.unfiltered()
        manifests = Amount.of(repo.manifestlog.getstorage(b""))
        revisions, files, levels = Amount(), 0, 0
        entries = [
            entry
            for entry in repo.store.data_entries(undecodable=[])
            if entry.is_revlog
        ]
        unit = _(b"revlogs")
        with repo.ui.makeprogress(_(b"counting"), unit, len(entries)) as progress:
            for entry in entries:
                amount = Amount.of(entry.get_revlog_instance(repo))
                if entry.is_filelog:
                    revisions, files = revisions.plus(amount), files + 1
                    levels += amount.revisions * entry.target_id.count(b"/")
                else:
                    manifests = manifests.plus(amount)
                progress.increment()
        return cls(Amount.of(repo.changelog), manifests, revisions, files, levels)


class Forecast(Record):
    """Estimated cost of a first export."""

    disk_bytes: int
    """Below ``.hg/amalgam`` afterwards, wherever the git store is."""
    cpu_seconds: float
    """Processor time of all cores together, on the machine that was measured."""

    @classmethod
    def of(cls, contents: Contents) -> Forecast:
        """Apply the rates."""
        files, changesets = contents.file_revisions, contents.changesets.revisions
        disk_bytes = (
            files.stored_bytes * _DISK_OF_FILE_BYTE
            + contents.manifests.stored_bytes * _DISK_OF_MANIFEST_BYTE
            + changesets * _DISK_OF_CHANGESET
            + files.revisions * _DISK_OF_FILE_REVISION
            + contents.levels * _DISK_OF_LEVEL
        )
        cpu_seconds = (
            _SECONDS_OF_START
            + files.text_bytes * _SECONDS_OF_TEXT_BYTE
            + files.stored_bytes * _SECONDS_OF_FILE_BYTE
            + changesets * _SECONDS_OF_CHANGESET
            + files.revisions * _SECONDS_OF_FILE_REVISION
            + contents.levels * _SECONDS_OF_LEVEL
        )
        return cls(int(disk_bytes), cpu_seconds)


def free_bytes(store: GitStore) -> int:
    """Return the free space at the place of the git store."""
    path = store.repository.path
    while not os.path.exists(path):
        path = os.path.dirname(path)
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize
