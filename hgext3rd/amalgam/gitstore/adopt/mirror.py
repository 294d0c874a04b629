"""A mirror: a git repository of somebody else, read as mere data.

Nothing in it is obeyed: git runs in an empty repository of our own, and sees only the
objects of the mirror. Those of a local mirror are lent file by file, without its
configuration, hooks, alternates, grafts and replacements. A mirror with a URL is
fetched first. Callers check the content of its objects.

Branches and tags of a local mirror are read here, by gitrepository-layout(5) and
git-pack-refs(1), since git would obey its configuration. They are written as one
``packed-refs`` to a repository of ours. Symbolic refs become their targets. Refs with
names that git refuses are left out, as by git.
"""

from __future__ import annotations

import os
import re
import stat
import urllib.parse
from typing import TYPE_CHECKING

from mercurial import error, pycompat
from mercurial.i18n import _

from ...files import Directory, Placement, Unusable
from ...records import Record
from ...terminal import printable
from ..adopted import LONGEST_COMMIT_BYTES, AdoptedCommit
from ..git import lending, process
from ..git.comparison import files_of, object_id
from ..git.refs import METADATA
from ..git.repository import make_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..git.process import Git


PROTOCOLS = "file:git:http:https:ssh"
"""The transports that may be used; of files, only to read a local bundle is left."""

_URL = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://|[A-Za-z0-9+.-]+::|[^/]+:")
_FILE = b"file://"
_OBJECTS = b"objects"
_PACKED_REFS_BYTES = 512 << 20
_REF_BYTES = 64
_OID = re.compile(rb"[0-9a-f]{40}")
_TREE = re.compile(rb"tree ([0-9a-f]{40})\n")


class Mirror(Record):
    """A git repository opened for reading."""

    name: bytes
    """The user's name for it."""
    git: Git
    """git, for a repository of our own that has its objects."""
    metadata: bytes | None
    """Oid of git-cinnabar's metadata commit, in hex, or None."""
    files: Directory | None
    """Where its own files are, if it is local."""

    def commits(self, wanted: Iterable[tuple[bytes, bytes]]) -> Iterator[AdoptedCommit]:
        """Yield the commits of ``wanted``, pairs of node and oid, in order.

        ``Abort`` if an object is missing, is no commit, or has another oid.
        """
        wanted = [*wanted]
        asked = (b"%s\n" % oid.hex().encode() for _node, oid in wanted)
        with self.git.pieces("cat-file", "--batch", "--buffer", input=asked) as pieces:
            answers = _Answers(pieces)
            for node, oid in wanted:
                head = answers.line().split(b" ")
                content = self._content(node, oid, head, answers)
                match = _TREE.match(content)
                # the core looks at the rest
                tree = bytes.fromhex(match[1].decode()) if match else bytes(len(oid))
                yield AdoptedCommit(node, oid, tree, content)

    def _content(
        self, node: bytes, oid: bytes, head: list[bytes], answers: _Answers
    ) -> bytes:
        names = oid.hex().encode(), node.hex().encode()
        if len(head) != 3:
            raise error.InputError(
                _(b"commit %s of changeset %s is not in '%s'")
                % (*names, printable(self.name)),
                hint=_(
                    b"alternates are not followed: 'git repack -a -d' copies what "
                    b"they have"
                ),
            )
        _found, kind, size = head
        if kind != b"commit":
            raise error.InputError(
                _(b"object %s of changeset %s is not a commit, but a %s")
                % (*names, printable(kind)),
                hint=_(
                    b"name the commit in the file for --map: git rev-parse TAG^{commit}"
                ),
            )
        if int(size) > LONGEST_COMMIT_BYTES:
            raise error.InputError(
                _(b"commit %s of changeset %s has %s bytes, more than %d")
                % (*names, size, LONGEST_COMMIT_BYTES),
                hint=_(
                    b"leave the changeset out of the file for --map, to get a new id"
                ),
            )
        content = answers.content(int(size))
        if object_id(b"commit", content) != oid:
            raise error.InputError(
                _(b"commit %s of changeset %s is damaged in '%s'")
                % (*names, printable(self.name)),
                hint=_(b"run 'git fsck' there"),
            )
        return content

    def tree(self, tree: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield the files of a tree: path, mode and oid in hex, ascending by path."""
        return files_of(self.git, tree.hex().encode())

    def check(self) -> None:
        """Let git check all objects; ``Abort`` with its first message."""
        # manifests of git-cinnabar have modes of their own
        config = {"fsck.badFilemode": "ignore"}
        done = self.git.run("fsck", "--no-dangling", config=config, check=False)
        if done.returncode:
            lines = done.stderr.splitlines() + done.stdout.splitlines()
            first = next((it for it in lines if it.startswith(b"error")), b"")
            raise error.Abort(
                _(b"git fsck finds errors in '%s': %s")
                % (printable(self.name), printable(first or b"".join(lines[:1]))),
                hint=_(b"repair the mirror, or adopt without --full"),
            )


def opened(name: bytes, git: Git, scratch: bytes) -> Mirror:
    """Open the mirror ``name``, with help of a directory of ours.

    ``git`` is the program. ``InputError`` if it is no git repository.
    """
    repository = Directory(scratch, (b"mirror.git",))
    own = Placement(0o700, os.geteuid(), os.getegid())
    repository.make(own)
    make_empty(repository, own)
    git = git._replace(directory=repository)
    files = local_files(name)
    if files is None:
        return _fetched(name, git)
    objects = Directory(scratch, (b"mirror-objects",))
    objects.make(own)
    lending.lend(files, objects)
    return Mirror(name, git._replace(new_objects=objects), _metadata(files), files)


def local_files(name: bytes) -> Directory | None:
    """Return the directory of a local git repository; ``None`` for a URL.

    ``InputError`` if it is no git repository.
    """
    path = _local_path(name)
    return None if path is None else _files_of(path, name)


def _local_path(name: bytes) -> bytes | None:
    """Return where a repository is; ``None`` if it has to be fetched."""
    if name.startswith(_FILE):
        path = urllib.parse.unquote_to_bytes(name[len(_FILE) :])
        if not path.startswith(b"/"):
            raise error.InputError(
                _(b"'%s' names no file of this host") % printable(name),
                hint=_(b"write file:///path/to/mirror.git"),
            )
        return path
    if _URL.match(name) and not os.path.isdir(name):
        return None
    return os.path.abspath(name)


def _fetched(name: bytes, git: Git) -> Mirror:
    """Fetch all refs of a mirror into the repository of ``git``."""
    git.run(
        *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc"),
        "--no-recurse-submodules",
        operands=[name, b"+refs/*:refs/*"],
        protocols=PROTOCOLS,
    )
    done = git.run("rev-parse", "--quiet", "--verify", METADATA, check=False)
    found = done.stdout.strip()
    return Mirror(name, git, found if _OID.fullmatch(found) else None, None)


def _files_of(path: bytes, name: bytes) -> Directory:
    """Return the directory of a local repository, with working tree or without."""
    for place in (Directory(path), Directory(path, (b".git",))):
        try:
            if place.exists(_OBJECTS) and place.exists(b"HEAD"):
                return place
        except (OSError, Unusable):
            continue
    raise error.InputError(
        _(b"'%s' is not a git repository") % printable(name),
        hint=_(b"name the directory that has 'objects' and 'HEAD'"),
    )


def _metadata(files: Directory) -> bytes | None:
    """Return the target of refs/cinnabar/metadata, from the files of a repository."""
    found = _try_read(files, METADATA, _REF_BYTES).strip()
    if not found:
        for line in _try_read(files, b"packed-refs", _PACKED_REFS_BYTES).splitlines():
            oid, _space, name = line.partition(b" ")
            if name == METADATA:
                found = oid
    return found if _OID.fullmatch(found) else None


def _try_read(files: Directory, name: bytes, limit_bytes: int) -> bytes:
    try:
        return files.tryread(name, limit_bytes)
    except NotADirectoryError:
        return b""
    except OSError as exc:
        raise error.Abort(
            _(b"cannot read '%s': %s")
            % (files.join(name), pycompat.bytestr(os.strerror(exc.errno or 0)))
        ) from None


class _Answers:
    """Output of git cat-file, which comes in pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._buffer = bytearray()
        self._at = 0

    def line(self) -> bytes:
        """Return the next line."""
        while (end := self._buffer.find(b"\n", self._at)) < 0:
            self._more()
        line = bytes(self._buffer[self._at : end])
        self._at = end + 1
        return line

    def content(self, size: int) -> bytes:
        """Return the next ``size`` bytes; the end of line after them goes, too."""
        while len(self._buffer) - self._at <= size:
            self._more()
        content = bytes(self._buffer[self._at : self._at + size])
        self._at += size + 1
        return content

    def _more(self) -> None:
        del self._buffer[: self._at]
        self._at = 0
        piece = next(self._pieces, None)
        if piece is None:
            raise error.Abort(
                _(b"git cat-file ended early"), hint=_(b"run 'git fsck' in the mirror")
            )
        self._buffer += piece


_PACKED, _HEAD, _REFS = b"packed-refs", b"HEAD", b"refs"
_PACKED_BYTES = 512 << 20
_LOOSE_REF_BYTES = 4096
# more are packed by any git repository that is ever maintained
_MOST_LOOSE = 1 << 20
_LINKS = 5
_PACKED_REF = re.compile(rb"([0-9a-f]{40}) (refs/[^\n]+)")
_REF_OID = re.compile(rb"([0-9a-f]{40})\s*")
_SYMREF = re.compile(rb"ref:[ \t]*([^\s]+)\s*")
# git-check-ref-format(1)
_BAD_NAME = re.compile(
    rb"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[./]$|^@$"
)


class MirrorRefs(Record):
    """Refs of a repository."""

    oids: dict[bytes, bytes]
    """Oids in hex by names that begin with ``refs/``."""
    head: bytes
    """Content of ``HEAD``."""

    @property
    def is_detached(self) -> bool:
        """Whether ``HEAD`` is a commit, and not a branch."""
        return _REF_OID.fullmatch(self.head) is not None

    def write(self, target: Directory, placement: Placement) -> None:
        """Write them to a bare repository that has no refs."""
        lines = [b"%s %s\n" % (oid, name) for name, oid in sorted(self.oids.items())]
        target.replace(_PACKED, b"".join(lines), placement)
        if self.head:
            target.replace(_HEAD, self.head, placement)


def read_refs(files: Directory, name: bytes, program: bytes) -> MirrorRefs:
    """Read the refs of the repository ``files``, which the user calls ``name``.

    ``InputError`` if it is of a kind whose history cannot be surveyed.
    """
    _check_git_repository(files, name, program)
    found = _packed_refs(files)
    links = {}
    for ref, content in _loose_refs(files, name):
        if match := _REF_OID.fullmatch(content):
            found[ref] = match[1]
        elif match := _SYMREF.fullmatch(content):
            links[ref] = match[1]
    for ref, target in links.items():
        for _link in range(_LINKS):
            target = links.get(target, target)
        if target in found:
            found[ref] = found[target]
    head = files.tryread(_HEAD, _LOOSE_REF_BYTES)
    match = _SYMREF.fullmatch(head)
    is_usable = _REF_OID.fullmatch(head) or (match and not _BAD_NAME.search(match[1]))
    return MirrorRefs(found, head if is_usable else b"")


def _check_git_repository(files: Directory, name: bytes, program: bytes) -> None:
    """Abort if a repository is of a kind whose objects cannot all be read."""
    content = files.tryread(process.CONFIG, process.CONFIG_BYTES)
    settings = dict(process.settings(program, content))
    hash_name = settings.get(b"extensions.objectformat", b"sha1")
    if hash_name.lower() != b"sha1":
        raise error.InputError(
            _(b"'%s' has ids of %s, and Mercurial's are of SHA-1")
            % (printable(name), printable(hash_name))
        )
    if files.exists(b"reftable"):
        raise error.InputError(
            _(b"'%s' has its refs in reftables, which cannot be read")
            % printable(name),
            hint=_(b"survey a clone: 'git clone --mirror --ref-format=files'"),
        )
    if files.tryread(b"shallow", _PACKED_BYTES).strip():
        raise error.InputError(
            _(b"'%s' is a shallow clone") % printable(name),
            hint=_(b"run 'git fetch --unshallow' there"),
        )


def _packed_refs(files: Directory) -> dict[bytes, bytes]:
    found = {}
    for line in files.tryread(_PACKED, _PACKED_BYTES).splitlines():
        match = _PACKED_REF.fullmatch(line)
        if match and not _BAD_NAME.search(match[2]):
            found[match[2]] = match[1]
    return found


def _loose_refs(files: Directory, name: bytes) -> list[tuple[bytes, bytes]]:
    """Return names and contents of the files that are refs."""
    directory = files.sub(_REFS)
    found: list[tuple[bytes, bytes]] = []
    for inner, entry in directory.walk():
        ref = b"refs/" + inner
        # git may have removed its temporary files again
        try:
            is_file = stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode)
        except FileNotFoundError:
            continue
        if is_file and not _BAD_NAME.search(ref):
            found.append((ref, directory.tryread(inner, _LOOSE_REF_BYTES)))
        if len(found) > _MOST_LOOSE:
            raise error.InputError(
                _(b"'%s' has more than %d refs in files of their own")
                % (printable(name), _MOST_LOOSE),
                hint=_(b"run 'git pack-refs --all' there"),
            )
    return found
