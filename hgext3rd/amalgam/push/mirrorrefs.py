"""Branches and tags of a local git repository, read without running git in it.

git would obey the configuration of that repository. So its ref files are read here, as
gitrepository-layout(5) and git-pack-refs(1) describe them, and are written as one
``packed-refs`` to a repository of ours. Symbolic refs become what they lead to. Refs
with names that git refuses are left out, as by git.
"""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..gitstore.git import gitprocess
from ..records import Record
from ..terminal import printable

if TYPE_CHECKING:
    from ..placement import Directory, Placement

_PACKED, _HEAD, _REFS = b"packed-refs", b"HEAD", b"refs"
_PACKED_BYTES = 512 << 20
_REF_BYTES = 4096
# more are packed by any git repository that is ever maintained
_MOST_LOOSE = 1 << 20
_LINKS = 5
_LINE = re.compile(rb"([0-9a-f]{40}) (refs/[^\n]+)")
_OID = re.compile(rb"([0-9a-f]{40})\s*")
_LINK = re.compile(rb"ref:[ \t]*([^\s]+)\s*")
# git-check-ref-format(1)
_BAD_NAME = re.compile(
    rb"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[./]$|^@$"
)


class MirrorRefs(Record):
    """What the refs of a repository are."""

    oids: dict[bytes, bytes]
    """Oids in hex by names that begin with ``refs/``."""
    head: bytes
    """What ``HEAD`` says."""

    @property
    def is_detached(self) -> bool:
        """Whether ``HEAD`` is a commit, and not a branch."""
        return _OID.fullmatch(self.head) is not None

    def write(self, target: Directory, placement: Placement) -> None:
        """Write them to a bare repository that has no refs."""
        lines = [b"%s %s\n" % (oid, name) for name, oid in sorted(self.oids.items())]
        target.replace(_PACKED, b"".join(lines), placement)
        if self.head:
            target.replace(_HEAD, self.head, placement)


def read(files: Directory, name: bytes, program: bytes) -> MirrorRefs:
    """Read the refs of the repository ``files``, which the user calls ``name``.

    ``InputError`` if it is of a kind whose history cannot be surveyed.
    """
    _check(files, name, program)
    found = _packed(files)
    links = {}
    for ref, content in _loose(files, name):
        if match := _OID.fullmatch(content):
            found[ref] = match[1]
        elif match := _LINK.fullmatch(content):
            links[ref] = match[1]
    for ref, target in links.items():
        for _link in range(_LINKS):
            target = links.get(target, target)
        if target in found:
            found[ref] = found[target]
    head = files.tryread(_HEAD, _REF_BYTES)
    match = _LINK.fullmatch(head)
    is_usable = _OID.fullmatch(head) or (match and not _BAD_NAME.search(match[1]))
    return MirrorRefs(found, head if is_usable else b"")


def _check(files: Directory, name: bytes, program: bytes) -> None:
    """Abort if a repository is of a kind of which less than all can be read."""
    content = files.tryread(gitprocess.CONFIG, gitprocess.CONFIG_BYTES)
    settings = dict(gitprocess.settings(program, content))
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


def _packed(files: Directory) -> dict[bytes, bytes]:
    found = {}
    for line in files.tryread(_PACKED, _PACKED_BYTES).splitlines():
        match = _LINE.fullmatch(line)
        if match and not _BAD_NAME.search(match[2]):
            found[match[2]] = match[1]
    return found


def _loose(files: Directory, name: bytes) -> list[tuple[bytes, bytes]]:
    """Return names and contents of the files that are refs."""
    directory = files.sub(_REFS)
    found: list[tuple[bytes, bytes]] = []
    for inner, entry in directory.walk():
        ref = b"refs/" + inner
        # what git makes meanwhile may be gone again
        try:
            is_file = stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode)
        except FileNotFoundError:
            continue
        if is_file and not _BAD_NAME.search(ref):
            found.append((ref, directory.tryread(inner, _REF_BYTES)))
        if len(found) > _MOST_LOOSE:
            raise error.InputError(
                _(b"'%s' has more than %d refs in files of their own")
                % (printable(name), _MOST_LOOSE),
                hint=_(b"run 'git pack-refs --all' there"),
            )
    return found
