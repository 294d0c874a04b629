"""Repositories with files in LFS, and git-lfs.

Contents are in Mercurial's LFS store; filelogs have pointers, which are flagged.
"""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .environment import ENVIRONMENT
from .exported import Exported
from .hgserver import HgServer

#: Files of this size and more are in LFS.
LARGE_BYTES = 100
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_ENTRY_LEN = 64
_EXTERNAL = 1 << 13


@functools.cache
def git_lfs() -> Path | None:
    """Return the directory of the program: on ``PATH``, or where make puts it."""
    places = [str(path) for path in _CACHE.glob("hg-amalgam/git-lfs-*")]
    found = shutil.which("git-lfs", path=os.pathsep.join([os.environ["PATH"], *places]))
    return Path(found).parent if found else None


def environment() -> dict[str, str]:
    """Return an environment in which ``git lfs`` is a command."""
    path = os.pathsep.join([str(git_lfs()), os.environ["PATH"]])
    return ENVIRONMENT | {"PATH": path}


def git_lfs_pointer(path: Path) -> bytes:
    """Return the pointer to a file, as git-lfs makes it."""
    return subprocess.run(
        ["git", "lfs", "pointer", f"--file={path.name}"],
        cwd=path.parent,
        env=environment(),
        capture_output=True,
        check=True,
    ).stdout


def init(root: Path, server: HgServer) -> Exported:
    """Make an empty repository whose large files are going to be in LFS."""
    server.hg(root.parent, "init", str(root))
    enable(root)
    return Exported(root, server)


def enable(root: Path) -> None:
    """Let Mercurial put large files into LFS from now on."""
    with (root / ".hg" / "hgrc").open("a") as hgrc:
        hgrc.write(
            f"[extensions]\nlfs =\n[lfs]\ntrack = size('>={LARGE_BYTES}')\n"
            f"usercache = {root.parent / 'usercache'}\n"
        )


def set_flags(filelog: Path, in_lfs: bool, *revs: int) -> None:
    """Flag the revisions of an inline filelog as being in LFS, or as not."""
    content = bytearray(filelog.read_bytes())
    for rev, at in enumerate(_entries(content)):
        if rev in revs:
            (flags,) = struct.unpack_from(">H", content, at + 6)
            flags = flags | _EXTERNAL if in_lfs else flags & ~_EXTERNAL
            struct.pack_into(">H", content, at + 6, flags)
    filelog.write_bytes(content)


def _entries(content: bytearray) -> Iterator[int]:
    at = 0
    while at < len(content):
        yield at
        at += _ENTRY_LEN + struct.unpack_from(">I", content, at + 8)[0]
