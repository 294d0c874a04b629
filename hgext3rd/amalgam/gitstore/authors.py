"""The file of ``git.authors``: users, and the names that new commits have for them.

It is hg-git's. It counts where hg-git's files are kept, since its map keeps the ids of
commits when the file changes.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from mercurial import encoding, error
from mercurial.i18n import _

from ..config import setting
from ..configitems import HGGIT_DIALECT
from ..terminal import printable, shown_by_git

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from ..config import GitConfig

_MAP = b"git-mapfile"
_MOST_BYTES = 1 << 24
_MOST_SHOWN = 80


def pairs(repo: RepoT, config: GitConfig) -> bytes:
    """Return users and their names in commits, in turn, an LF after each.

    ``ConfigError`` if the file is missing or wrong.
    """
    name = setting(repo.ui, b"git", b"authors")
    if not name or config.dialect != HGGIT_DIALECT or not config.hggit_files:
        return b""
    is_asked = setting(repo.ui, b"amalgam", b"git.hggit-files") is not None
    if not is_asked and not os.path.exists(os.path.join(repo.sharedpath, _MAP)):
        return b""
    path = repo.wvfs.join(name)
    try:
        content = _content(path)
    except OSError as exc:
        problem = encoding.strtolocal(exc.strerror or str(exc))
        raise _wrong(_(b"cannot be read: %s") % problem, path) from exc
    found: dict[bytes, bytes] = {}
    for line in map(bytes.strip, content.split(b"\n")):
        if not line or line.startswith(b"#"):
            continue
        user, *rest = map(bytes.strip, line.split(b"="))
        if len(rest) != 1 or b"\0" in line or not _is_utf8(line):
            text = _(b"has the line '%s' (expected USER = NAME <EMAIL> in UTF-8)")
            raise _wrong(text % shown_by_git(line[:_MOST_SHOWN]), path)
        found[user] = rest[0]
    return b"".join(b"%s\n%s\n" % it for it in found.items())


def _content(path: bytes) -> bytes:
    # the open of a FIFO would wait for a writer
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("not a file")
        with open(fd, "rb", closefd=False) as file:
            content = file.read(_MOST_BYTES + 1)
    finally:
        os.close(fd)
    if len(content) > _MOST_BYTES:
        raise OSError("more than 16 MB")
    return content


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _wrong(text: bytes, path: bytes) -> error.ConfigError:
    return error.ConfigError(
        _(b"the file in git.authors %s") % text,
        hint=_(b"correct '%s', or the item: hg config --edit") % printable(path),
    )
