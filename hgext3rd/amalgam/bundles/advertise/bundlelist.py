"""The list of bundles that git reads: ``bundles.list``, a git config file.

Its format is that of git-bundle-uri(5), "Bundle Lists". On disk it names what the chain
has, as clients of a static server find it; hgweb makes it anew for each request.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from mercurial import error

from ...config import BundlesConfig
from ...placement import Directory
from ..lifecycle import directories, urls
from ..lifecycle.formats import is_uploaded
from ..lifecycle.objectstore import storeclient, stored
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


def text_of(chain: Iterable[Entry], address: Callable[[Entry], bytes]) -> bytes:
    """Return a list of ``chain``, base first. ``address`` gives the URL of each."""
    text = _HEAD
    for entry in chain:
        what = b"increment" if entry.follows else b"base"
        url = address(entry)
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
    text = text_of(chain, _on_disk)
    if there != text:
        directories.make(repo, path)
        directory.replace(NAME, text, directories.placement_at(repo, path))
    _write_elsewhere(repo, register, directory, text, upload)


def _write_elsewhere(
    repo: RepoT,
    register: Register,
    directory: Directory,
    text: bytes,
    upload: Callable[[bytes], None],
) -> None:
    """Upload the list, unless it is what is there."""
    store = BundlesConfig.from_ui(repo.ui).store
    if store and not stored.has_list(repo.ui):
        text = text_of((), _on_disk)  # it would lead to nothing that clients can read
    digest = hashlib.sha256(text + store).hexdigest()
    may_leave = stored.has_list(repo.ui) if store else urls.may_leave(repo.ui)
    if not (store or is_uploaded(repo.ui)) or register.uploaded_list == digest:
        return
    if not may_leave and not register.uploaded_list:
        return
    if store:
        client = storeclient.client_of(store.decode())
        client.replace(NAME.decode(), text)
    else:
        upload(directory.join(NAME))
    register.uploaded_list = digest
    register.write(repo)


def _on_disk(entry: Entry) -> bytes:
    url = os.fsencode(entry.url)
    return url.rpartition(b"/")[2] if urls.is_relative(url) else url


def _empty(repo: RepoT, path: str) -> None:
    """Let the list in a directory where bundles may not be name nothing."""
    directory = directories.directory_at(repo, path)
    text = text_of((), _on_disk)
    if directory is not None and _read(directory) not in (b"", text):
        directory.replace(NAME, text, directories.placement_at(repo, path))


def _read(directory: Directory) -> bytes | None:
    """Return the list in a directory, ``None`` if that is none of ours."""
    try:
        return directory.tryread(NAME, _LIMIT_BYTES)
    except error.StorageError:
        return None
