"""Tags of a push: one git commit to ``.hgtags`` for all of them, made by the server.

In Mercurial, a tag is a line of that file. The commit is on top of the branch that a
clone checks out, and is converted with the others: so hooks, limits and the round trip
are those of any commit. Owns the lines that it adds, and its author.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from mercurial import encoding, error, scmutil
from mercurial.i18n import _
from mercurial.utils import stringutil

from ..gitstore.git.refs import TAGS, tag_names
from ..records import Record
from ..terminal import utf8_of
from .commands import PushRefusedError, check_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mercurial.interfaces.types import RepoT

    from ..gitstore.git.process import Git

_FILE = b".hgtags"
_NULL = b"0" * 40
_NOBODY = b"anonymous"
_REFUSED_BY_GIT = re.compile(rb"[\x00-\x1f\x7f<>\\]")
_SHORT = 12
_MOST_NAMED = 5


class TagChange(Record):
    """Change of a tag; nodes in hex."""

    name: bytes
    """The tag, as Mercurial has it in memory."""
    before: bytes
    """The changeset that had it; empty if none had."""
    node: bytes
    """The one that is to have it; empty for none."""


def by_shown_name(tags: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return those of ``tags`` that git users see, by the names that they see."""
    names = tag_names(tags)
    return {names[name]: name for name in reversed([*names])}


def name_of(
    view: RepoT, tags: Mapping[bytes, bytes], ref: bytes, kind: bytes | None
) -> bytes:
    """Return the tag of a ref; refuse an impossible one.

    ``tags``: as ``by_shown_name``; ``kind``: the type of its new object.
    """
    if kind == b"tag":
        raise PushRefusedError(
            _(
                b"the message and the tagger of an annotated tag would be lost; push a "
                b"plain one: git tag -f NAME NAME^{}"
            )
        )
    if kind != b"commit":
        raise PushRefusedError(
            _(b"only commits can be tagged; tag one: git tag -f NAME COMMIT")
        )
    shown = ref.removeprefix(TAGS)
    if shown in tags:
        return tags[shown]
    name: bytes = encoding.tolocal(shown)
    if encoding.fromlocal(name) != shown:
        raise PushRefusedError(
            _(b"the name of a tag has to be UTF-8; choose another name")
        )
    check_length(shown)
    try:
        scmutil.checknewlabel(view, name, b"tag")
    except error.Abort as exc:
        problem = utf8_of(stringutil.forcebytestr(exc))
        raise PushRefusedError(
            _(b"no tag: %s; choose another name") % problem
        ) from None
    return name


def commit(git: Git, base: bytes, tags: Sequence[TagChange], user: bytes) -> bytes:
    """Make a commit on top of ``base`` that changes ``tags``; return its oid, in hex.

    ``user``: the pusher, in UTF-8. ``PushRefusedError`` if ``.hgtags`` is a symbolic
    link or the like.
    """
    lines = []
    for change in tags:
        name = encoding.fromlocal(change.name)
        if change.before:
            lines.append(b"%s %s\n" % (change.before, name))
        lines.append(b"%s %s\n" % (change.node or _NULL, name))
    entries, content = _read(git, base)
    if content and not content.endswith(b"\n"):
        content += b"\n"
    blob = _write(git, "blob", content + b"".join(lines))
    entries[_FILE] = b"100644 blob %s\t%s\0" % (blob, _FILE)
    tree = git.run("mktree", "-z", input=b"".join(entries.values())).stdout.strip()
    author = _identity(user) + b" %d +0000" % time.time()
    text = b"tree %s\nparent %s\nauthor %s\ncommitter %s\n\n%s\n" % (
        *(tree, base, author, author),
        _message(tags),
    )
    return _write(git, "commit", text)


def _read(git: Git, base: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """Return the entries of a commit's root, and the content of its file of tags."""
    listed = git.run("ls-tree", "-z", base.decode()).stdout.split(b"\0")
    entries = {line.partition(b"\t")[2]: line + b"\0" for line in listed if line}
    entry = entries.get(_FILE)
    if entry is None:
        return entries, b""
    mode, _kind, oid = entry.partition(b"\t")[0].split(b" ")
    if mode != b"100644":
        raise PushRefusedError(
            _(b"'.hgtags' is no ordinary file; ask a Mercurial user to mend it")
        )
    return entries, git.run("cat-file", "blob", oid.decode()).stdout


def _write(git: Git, kind: str, content: bytes) -> bytes:
    done = git.run("hash-object", "-t", kind, "-w", "--stdin", input=content)
    oid: bytes = done.stdout.strip()
    return oid


def _identity(user: bytes) -> bytes:
    """Return ``user`` as git writes people, in a form that comes back."""
    user = user or _NOBODY
    mail = stringutil.email(user) if b"@" in user else b""
    name = stringutil.person(user) if mail != user else b""
    name, mail = (_REFUSED_BY_GIT.sub(b"", it).strip() for it in (name, mail))
    if not mail:
        name = name.replace(b"@", b"") or _NOBODY
    return b"%s <%s>" % (name, mail)


def _message(tags: Sequence[TagChange]) -> bytes:
    """Return the message of ``hg tag``; a line for each of a few tags."""
    lines = []
    for change in tags[:_MOST_NAMED]:
        name, node = encoding.fromlocal(change.name), change.node[:_SHORT]
        if node:
            lines.append(b"Added tag %s for changeset %s" % (name, node))
        else:
            lines.append(b"Removed tag %s" % name)
    if len(tags) > _MOST_NAMED:
        lines.append(b"and %d more" % (len(tags) - _MOST_NAMED))
    return b"\n".join(lines)
