"""The bundle register: one entry for each published bundle.

``docs/formats/bundles.rst`` describes ``.hg/amalgam/bundles/register``. The generator
replaces it as a whole; everybody may read it. It has the fields for which the state
file of Mercurial's extension has no room. A bundle that is no longer advertised stays
in it during its retention.

Users may have edited the file, so each field is checked on reading.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from .. import docketfile
from ..configitems import STORE
from ..docketfile import Field, matching, number, numbers, texts
from ..files import Directory, Placement
from ..terminal import printable
from .keys import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mercurial.interfaces.types import RepoT

    from ..docketfile import Fields
    from ..locking import Hold

NAME = re.compile(rb"[0-9a-f]{64}\.(?:bundle|hg)")
"""Name of a bundle: SHA-256 of its content, and a suffix for its reader."""
HERE = "."
"""The path of bundles that are in the directory of the register."""
_FILE = b"register"
_TITLE = b"amalgam bundle register 2"
_LIMIT_BYTES = 4 << 20
"""About 5,000 bundles: a web server must not run out of memory by parsing."""


class Entry:
    """A bundle that was made."""

    name: str
    """SHA-256 of its content, with a suffix."""
    type: str
    url: str
    """Where clients find it; relative to the URL of the repository if it serves it."""
    path: str
    """Its directory, ``HERE`` for the register's, or its object store; empty if a
    command uploaded it."""
    bytes: int
    changesets: int
    """Number of its changesets, without those of its base."""
    revs: int
    """Revisions of the repository when it was made, as Mercurial's triggers count."""
    tip_rev: int
    tip_node: str
    heads: str
    """Digest of the heads it was made for, with those of its base."""
    made: float
    """Seconds since the epoch."""
    reached: str = ""
    """Digest of the heads that git finds in it, with those of its base: of a branch
    with several heads, only one has a name."""
    token: int = 0
    """Its creation token, if it is for git."""
    follows: int = 0
    """The token of the bundle that an increment builds upon."""
    window_bytes: int = 0
    """Memory that a client of Mercurial needs to decompress it."""
    retired: float | None = None
    """Since when it is retained without being advertised; ``None`` if it is advertised,
    or must go without delay."""
    mark: str = ""
    """The mark of censorings (``censorship``) from before it was made."""
    key: str = ""
    """Its name in the object store; empty if it is in none."""

    def __init__(self, **values: Any) -> None:
        """Take a value for each field, except those with a default."""
        vars(self).update(values)


class Register:
    """All that is known of the bundles of a repository."""

    entries: dict[str, Entry]
    """By name."""
    last_token: int = 0
    """The largest creation token that any client was ever given."""
    cinnabar_manifests: tuple[str, ...] = ()
    """SHA-256 of the manifests that amalgam wrote, or was about to write."""
    uploaded_list: str = ""
    """SHA-256 of the list of bundles that was uploaded last."""
    others: dict[str, str]
    """Such marks of bundles that Mercurial's extension publishes itself, by name; none
    for those made before the first censoring."""
    uploads: dict[str, str]
    """Keys in object stores without a bundle, or without one yet."""
    failure: str = ""
    """Why the last generation failed; empty if it did not."""

    def __init__(self, **values: Any) -> None:
        """Take values of fields."""
        self.entries, self.others, self.uploads = {}, {}, {}
        vars(self).update(values)

    @classmethod
    def read(cls, repo: RepoT) -> Register:
        """Return the register; an empty one if no bundle was ever made.

        ``StorageError``, and nothing else, if it cannot be read.
        """
        directory = directory_of(repo)
        try:
            content = directory.tryread(_FILE, _LIMIT_BYTES)
            return cls.parse(content) if content else cls()
        except ValueError:
            problem = _(b"is damaged, or written by a later version of amalgam")
        except OSError as exc:
            problem = _(b"cannot be read: %s") % (exc.strerror or "").encode()
        raise error.StorageError(
            _(b"bundle register '%s' %s") % (printable(directory.join(_FILE)), problem),
            hint=_(b"remove it, and run 'hg admin::clone-bundles-clear'"),
        )

    @classmethod
    def parse(cls, content: bytes) -> Register:
        """Parse ``content`` as written by ``format``; ``ValueError`` for anything
        else."""
        lines = docketfile.parsed(content, _TITLE)
        head, *bundles = docketfile.split(lines, _ENTRY["name"].key)
        entries = [Entry(**docketfile.values_of(part, _ENTRY)) for part in bundles]
        values = docketfile.values_of(head, _REGISTER)
        for name in ("others", "uploads"):
            values[name] = dict(values[name])
        return cls(entries={entry.name: entry for entry in entries}, **values)

    @classmethod
    def read_for_client(cls, repo: RepoT) -> Register | None:
        """Return the register; ``None`` if it is damaged.

        Clients can do without bundles; ``admin::amalgam`` tells the operator.
        """
        try:
            return cls.read(repo)
        except error.StorageError:
            return None

    def format(self) -> bytes:
        """Return the content of the file."""
        lines = [*docketfile.lines_of(self, _REGISTER)]
        for entry in self.entries.values():
            lines += docketfile.lines_of(entry, _ENTRY)
        return docketfile.formatted(_TITLE, lines)

    def write(self, repo: RepoT) -> None:
        """Write it. Only for generators."""
        require_lock(repo)
        content = self.format()
        self.parse(content)  # the text must be readable
        if len(content) >= _LIMIT_BYTES:
            raise error.StateError(
                _(b"too many bundles are kept: %d") % len(self.entries),
                hint=_(b"set amalgam.bundles.retention to a shorter time"),
            )
        directory, placement = directory_of(repo), Placement.of(repo)
        directory.make(placement)
        directory.replace(_FILE, content, placement)


def directory_of(repo: RepoT) -> Directory:
    """Return the directory of the register, which may be missing.

    It belongs to a repository, not to a store, like the state of Mercurial's extension:
    shares have their own.
    """
    return Directory(repo.path, (b"amalgam", b"bundles"))


_holds: dict[bytes, Hold] = {}
"""The locks that generators of this process have, by directory."""


@contextlib.contextmanager
def holding(repo: RepoT, hold: Hold) -> Iterator[None]:
    """Let ``require_lock`` ask for this lock as long as the context lasts."""
    path = directory_of(repo).path
    _holds[path] = hold
    try:
        yield
    finally:
        del _holds[path]


def require_lock(repo: RepoT) -> None:
    """Raise ``StateError`` if the lock of generators was lost to another host."""
    hold = _holds.get(directory_of(repo).path)
    if hold is not None:
        hold.require()


def is_address(url: str) -> bool:
    """Return whether ``url`` can be in a manifest: without space and line feed."""
    return _URL.fullmatch(url) is not None


_URL = re.compile(r"[^\x00-\x20\x7f]{0,4000}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NODE = re.compile(r"[0-9a-f]{40}")
_TYPE = re.compile(r"[!-~]{1,200}")
_STORE = STORE.decode()
_PATH = re.compile(rf"\.|/[^\0]{{0,4095}}|{_STORE}")
_UPLOAD = re.compile(rf"({KEY.pattern}) ({_STORE})")
_SECONDS = re.compile(r"[0-9]{1,11}(?:\.[0-9]{1,6})?")
_MARK = re.compile(r"[0-9a-f]{32}")


def _rev(text: bytes) -> int:
    return -1 if text == b"-1" else number(text)


def _seconds(text: bytes) -> float:
    return float(matching(_SECONDS)(text))


def _named_mark(text: bytes) -> tuple[str, str]:
    name, _space, mark = text.rpartition(b" ")
    return os.fsdecode(name), matching(_MARK)(mark)


def _upload(text: bytes) -> tuple[str, str]:
    key, _space, place = matching(_UPLOAD)(text).partition(" ")
    return key, place


def _named_mark_text(named: tuple[str, str]) -> bytes:
    return os.fsencode(" ".join(named))


_ENTRY: Mapping[str, Field] = {
    "name": texts(b"bundle", re.compile(NAME.pattern.decode())),
    "type": texts(b"type", _TYPE),
    "url": texts(b"url", _URL, ""),
    "path": texts(b"path", _PATH, ""),
    "bytes": numbers(b"bytes"),
    "changesets": numbers(b"changesets"),
    "revs": numbers(b"revs"),
    "tip_rev": Field(b"tip-rev", _rev, b"%d".__mod__),
    "tip_node": texts(b"tip-node", _NODE),
    "heads": texts(b"heads", _DIGEST),
    "made": Field(b"made", _seconds, b"%.6f".__mod__),
    "reached": texts(b"reached", _DIGEST, ""),
    "token": numbers(b"token", 0),
    "follows": numbers(b"follows", 0),
    "window_bytes": numbers(b"window-bytes", 0),
    "retired": Field(b"retired", _seconds, b"%.6f".__mod__, None),
    "mark": texts(b"mark", _MARK, ""),
    "key": texts(b"key", KEY, ""),
}
_REGISTER: Fields = {
    "last_token": numbers(b"last-token", 0),
    "cinnabar_manifests": texts(b"cinnabar-manifest", _DIGEST, many=True),
    "uploaded_list": texts(b"uploaded-list", _DIGEST, ""),
    "others": Field(b"other", _named_mark, _named_mark_text, many=True),
    "uploads": Field(b"upload", _upload, _named_mark_text, many=True),
    "failure": Field(b"failure", os.fsdecode, os.fsencode, ""),
}
