"""What is known of each bundle that was published: ``.hg/amalgam/bundles/register``.

JSON, replaced as a whole by who generates, one process at a time (``generator``), and
read by everybody. It says more of a bundle than the state file of Mercurial's extension
has room for, and it outlives an entry there: a bundle that is no longer advertised is
kept for a while, for those who are still downloading it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from typing import TYPE_CHECKING, Any

from mercurial import error, vfs as vfsmod
from mercurial.i18n import _

from ..loading import load
from ..placement import Placement

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, VfsT

DIRECTORY = b"amalgam/bundles"
"""Where bundles and the register are, below ``.hg``."""
NAME = re.compile(rb"[0-9a-f]{64}\.(?:bundle|hg)")
"""How the name of a bundle looks: that of its content, and who reads it."""
_FILE = b"register"
_VERSION = 1
_HERE = "."


@dataclasses.dataclass(slots=True)
class Entry:
    """A bundle that was made."""

    name: str
    """SHA-256 of its content, with a suffix."""
    type: str
    url: str
    """Where clients find it; relative to the URL of the repository if it serves it."""
    path: str
    """The directory it was put in; empty if it was uploaded."""
    bytes: int
    changesets: int
    """Those in it, without what an increment builds upon."""
    revs: int
    """Revisions of the repository when it was made, as Mercurial's triggers count."""
    tip_rev: int
    tip_node: str
    heads: str
    """The set of what it was made for, with what it builds upon (``headset``)."""
    made: float
    """Seconds since the epoch."""
    reached: str = ""
    """The set of what git finds in it, if it is for git, with what it builds upon: of a
    branch with several heads, only one has a name."""
    token: int = 0
    """Its creation token, if it is for git."""
    follows: int = 0
    """The token of the bundle that an increment builds upon."""
    window_bytes: int = 0
    """What a client of Mercurial has to keep in memory to decompress it."""
    retired: float | None = None
    """Since when it is not advertised."""
    at_once: bool = False
    """Whether it must go without delay."""
    left: list[list[str]] = dataclasses.field(default_factory=list)
    """Where the same file was put before: path and URL of each."""


@dataclasses.dataclass(slots=True)
class Register:
    """All that is known of the bundles of a repository."""

    entries: dict[str, Entry] = dataclasses.field(default_factory=dict)
    """By name."""
    last_token: int = 0
    """The largest creation token that any client was ever given."""
    cinnabar_manifests: list[str] = dataclasses.field(default_factory=list)
    """SHA-256 of what amalgam wrote, or was about to write, to its manifest."""
    uploaded_list: str = ""
    """SHA-256 of the list of bundles that was uploaded last."""
    failure: str = ""
    """Why the last generation failed; empty if it did not."""

    @classmethod
    def read(cls, repo: RepoT) -> Register:
        """Return what is known; nothing if there never was a bundle."""
        load(json)
        content = directory_of(repo).tryread(_FILE)
        if not content:
            return cls()
        try:
            known = json.loads(content)
            if known.pop("version") != _VERSION:
                raise ValueError("version")
            entries = [Entry(**entry) for entry in known.pop("entries")]
            for entry in entries:
                if entry.path == _HERE:
                    entry.path = os.fsdecode(directory_of(repo).base)
            return cls({entry.name: entry for entry in entries}, **known)
        except (ValueError, TypeError, KeyError, AttributeError):
            path = directory_of(repo).join(_FILE)
            raise error.StorageError(
                _(b"cannot read what is known of bundles: '%s'") % path,
                hint=_(b"remove it, and run 'hg admin::clone-bundles-clear'"),
            ) from None

    @classmethod
    def read_for_client(cls, repo: RepoT) -> Register | None:
        """Return what is known; ``None`` if it is damaged.

        Clients can do without bundles, and the operator is told elsewhere.
        """
        try:
            return cls.read(repo)
        except error.StorageError:
            return None

    def write(self, repo: RepoT) -> None:
        """Put it on disk. Only for who generates."""
        known: dict[str, Any] = dataclasses.asdict(self)
        known["entries"] = list(known["entries"].values())
        vfs = directory_of(repo)
        for entry in known["entries"]:
            # a copy of the repository has bundles of its own, and only those
            if entry["path"] == os.fsdecode(vfs.base):
                entry["path"] = _HERE
        text = json.dumps({"version": _VERSION, **known}, indent=1, sort_keys=True)
        placement = Placement.of(repo)
        placement.make_directory(vfs.base)
        placement.replace(vfs.join(_FILE), text.encode() + b"\n")


def directory_of(repo: RepoT) -> VfsT:
    """Return the directory of the register, which need not be there.

    It belongs to a repository, not to a store: as does the state of Mercurial's
    extension, of which shares have their own.
    """
    return vfsmod.vfs(repo.vfs.join(DIRECTORY), cacheaudited=True)


def placement_for(repo: RepoT, directory: bytes) -> Placement:
    """Return how files come into ``directory``, or it into the one above.

    Below ``.hg`` as all of amalgam. Elsewhere others have to read them, such as a web
    server: so that directory says who may.
    """
    if directory == directory_of(repo).base:
        return Placement.of(repo)
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return Placement.at(directory, directory)
