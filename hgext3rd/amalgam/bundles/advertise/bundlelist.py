"""The list of bundles that git reads: ``bundles.list``, a git config file.

Its format is that of git-bundle-uri(5), "Bundle Lists". On disk it names what the chain
has, as clients of a static server find it; hgweb makes it anew for each request.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from mercurial import error

from ...configitems import BundlesConfig
from ...placement import Directory
from ..lifecycle import directories, urls
from ..lifecycle.formats import is_uploaded
from ..lifecycle.register import Register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mercurial.interfaces.types import RepoT

    from ..lifecycle.register import Entry

NAME = b"bundles.list"

_LIMIT_BYTES = 1 << 20

_HEAD = b"""\
[bundle]
\tversion = 1
\tmode = all
\theuristic = creationToken
"""
_BUNDLE = b"""\
[bundle "%s-%d"]
\turi = %s
\tcreationToken = %d
"""


def text_of(chain: Iterable[Entry], address: Callable[[bytes], bytes]) -> bytes:
    """Return a list of ``chain``, base first. ``address`` makes a URL of an entry's."""
    text = _HEAD
    for entry in chain:
        what = b"increment" if entry.follows else b"base"
        url = address(os.fsencode(entry.url))
        text += _BUNDLE % (what, entry.token, url, entry.token)
    return text


def write(repo: RepoT, chain: Sequence[Entry], upload: Callable[[bytes], None]) -> None:
    """Let the list name ``chain``. Only for who generates, after the bundles are there.

    ``upload`` brings a file to clients under its own name. It is called if that is how
    clients get files here, or have got an earlier list.
    """
    register = Register.read(repo)
    if register.uploaded_list and not urls.may_leave(repo.ui):
        chain = ()  # the list elsewhere is to name nothing; hgweb makes its own
    path = directories.chosen(repo)
    configured = BundlesConfig.from_ui(repo.ui).directory
    if configured and os.fsdecode(configured) != path:
        _empty(repo, os.fsdecode(configured))
    directory = directories.directory_at(repo, path)
    assert directory is not None
    there = _read(directory)
    if not chain and not there and not register.uploaded_list:
        return
    # git before 2.40 knows no relative addresses; but here there is no other
    text = text_of(
        chain, lambda url: url.rpartition(b"/")[2] if urls.is_relative(url) else url
    )
    if there != text:
        directories.make(repo, path)
        directory.replace(NAME, text, directories.placement_at(repo, path))
    digest = hashlib.sha256(text).hexdigest()
    wanted = urls.may_leave(repo.ui) or register.uploaded_list
    if wanted and is_uploaded(repo.ui) and register.uploaded_list != digest:
        upload(directory.join(NAME))
        register.uploaded_list = digest
        register.write(repo)


def _empty(repo: RepoT, path: str) -> None:
    """Let the list in a directory where bundles may not be name nothing."""
    directory = directories.directory_at(repo, path)
    text = text_of((), urls.relative)
    if directory is not None and _read(directory) not in (b"", text):
        directory.replace(NAME, text, directories.placement_at(repo, path))


def _read(directory: Directory) -> bytes | None:
    """Return the list in a directory, ``None`` if that is none of ours."""
    try:
        return directory.tryread(NAME, _LIMIT_BYTES)
    except error.StorageError:
        return None
