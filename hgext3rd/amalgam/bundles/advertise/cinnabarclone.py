"""What git-cinnabar is told to start from: ``.hg/cinnabar.manifest``, one line.

The capability and the command ``cinnabarclone`` are those of git-cinnabar's own server
extension. A manifest that the operator wrote is served as it is and never changed. As
a line has no room for a mark, the register knows which contents are amalgam's.
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import TYPE_CHECKING, Any

from mercurial import error, wireprototypes, wireprotov1server
from mercurial.i18n import _

from ...loading import load
from ...placement import Directory, Placement
from ...terminal import one_line
from ..lifecycle import eligibility as bundles, register as registers, urls

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT

    from ..lifecycle.register import Entry, Register

MANIFEST = b"cinnabar.manifest"
CAPABILITY = b"cinnabarclone"
_SCHEMES = (b"http://", b"https://")
_LIMIT_BYTES = 1 << 16


def write(repo: RepoT, live: Entry | None) -> None:
    """Let the manifest name ``live`` and nothing else, unless it is the operator's.

    Only for who generates.
    """
    url = os.fsencode(live.url) if live else b""
    if url and not urls.is_relative(url) and not url.startswith(_SCHEMES):
        url = b""  # git-cinnabar takes no other from a server
    content = url + b"\n" if url else b""
    register = registers.Register.read(repo)
    there = _read(repo)
    if there == content or there is None or not _is_ours(register, there):
        if there != content and there != b"" and live:
            text = _(b"%s was not written by amalgam, and stays as it is") % MANIFEST
            repo.ui.note(one_line(text))
        return
    # known before it is there, so that what a crash leaves is known, too
    register.cinnabar_manifests = (_digest(there), _digest(content))
    register.write(repo)
    if content:
        Directory(repo.path).replace(MANIFEST, content, Placement.of(repo))
    else:
        Directory(repo.path).remove(MANIFEST)


def _read(repo: RepoT) -> bytes | None:
    """Return the manifest; ``None`` if it is no file, or larger than any manifest."""
    try:
        return Directory(repo.path).tryread(MANIFEST, _LIMIT_BYTES)
    except (OSError, error.StorageError):
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _is_ours(register: Register, content: bytes) -> bool:
    # nobody else writes a relative address: it means nothing to git-cinnabar
    return (
        not content
        or urls.is_relative(content)
        or _digest(content) in register.cinnabar_manifests
    )


def answer(repo: RepoT, proto: Any) -> bytes:
    """Return what a client is told; nothing if there is nothing it could use."""
    load(sys.modules[__name__])
    content = _read(repo)
    if not content:
        return b""
    register = registers.Register.read_for_client(repo)
    if register is None:
        return b""
    if not _is_ours(register, content):
        return content
    url = content.rstrip(b"\n")
    named = [e for e in register.entries.values() if os.fsencode(e.url) == url]
    if not any(_is_valid(repo, entry) for entry in named):
        return b""  # it was made of changesets that have been withdrawn since
    if not bundles.may_reach_git(repo):
        return b""
    url = urls.absolute(url, urls.base_of_peer(repo, proto))
    return url + b"\n" if url else b""


def _is_valid(repo: RepoT, entry: Entry) -> bool:
    if entry.key:  # the store may not be ours any more
        return bundles.is_sound(repo, entry)
    return bundles.may_be_named(repo, entry)


def capabilities(
    orig: Callable[[RepoT, Any], list[bytes]], repo: RepoT, proto: Any
) -> list[bytes]:
    """Add the capability if there is an answer."""
    found = orig(repo, proto)
    if CAPABILITY not in found and answer(repo, proto):
        found.append(CAPABILITY)
    return found


def register_command() -> None:
    """Add the command to those of the wire protocol, unless it is there."""
    if CAPABILITY in wireprotov1server.commands:
        return  # git-cinnabar's own extension reads the same file

    @wireprotov1server.wireprotocommand(CAPABILITY, b"", permission=b"pull")
    def cinnabarclone(repo: RepoT, proto: Any) -> Any:
        return wireprototypes.bytesresponse(answer(repo, proto))
