"""The list of bundles that git reads: ``bundles.list``, a git config file.

Its format is that of git-bundle-uri(5), "Bundle Lists". On disk it names what the chain
has, as clients of a static server find it; hgweb makes it anew for each request.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from ..configitems import BundlesConfig
from . import addresses
from .formats import is_uploaded
from .register import Register, placement_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mercurial.interfaces.types import RepoT

    from .register import Entry

NAME = b"bundles.list"

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
    directory = addresses.directory_for(repo)
    configured = BundlesConfig.from_ui(repo.ui).directory
    if configured and configured != directory:
        _take_back(repo, configured)
    path = os.path.join(directory, NAME)
    there = _read(path)
    if not chain and not there:
        return
    # git before 2.40 knows no relative addresses; but here there is no other
    text = text_of(chain, lambda url: url.rpartition(b"/")[2] if _own(url) else url)
    placement = placement_for(repo, directory)
    if there != text:
        placement.make_directory(directory)
        placement.replace(path, text)
    digest = hashlib.sha256(text).hexdigest()
    uploads = addresses.uploads(repo.ui)
    if uploads or (register.uploaded_list and is_uploaded(repo.ui)):
        if register.uploaded_list == digest:
            return
        upload(path)
        register.uploaded_list = digest
        register.write(repo)


def _take_back(repo: RepoT, directory: bytes) -> None:
    """Let the list in a directory name nothing: readers are restricted now."""
    path = os.path.join(directory, NAME)
    text = text_of((), addresses.relative)
    if _read(path) not in (b"", text):
        placement_for(repo, directory).replace(path, text)


def _own(url: bytes) -> bool:
    return addresses.is_relative(url)


def _read(path: bytes) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""
