"""Which bundles are in an object store, and how clients get at them.

Owns the decision that a bundle is put there, and its address: below
``amalgam.bundles.public-url``; or, if there are links, that of hgweb, which answers
with a link. A link is made when a client asks, and is kept nowhere.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _
from mercurial.utils import stringutil

from ....config import BundlesConfig
from ....terminal import one_line
from ....trust import Trust
from .. import urls
from . import keys, storeclient

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT

    from ..register import Entry


def may_hold(ui: UiT) -> bool:
    """Tell whether bundles of a repository may be in the store.

    What is read by links only has the permissions of hgweb.
    """
    config = BundlesConfig.from_ui(ui)
    if config.link_seconds and config.external is None:
        return True
    return urls.may_leave(ui)


def chosen(ui: UiT) -> str:
    """Return the store where new bundles are put; empty if it is none."""
    config = BundlesConfig.from_ui(ui)
    return config.store.decode() if config.store and may_hold(ui) else ""


def has_list(ui: UiT) -> bool:
    """Tell whether a list of bundles belongs into the store."""
    return bool(chosen(ui)) and not BundlesConfig.from_ui(ui).link_seconds


def url_of(ui: UiT, key: str, name: bytes) -> str:
    """Return the address of the object ``key``, the bundle ``name``."""
    config = BundlesConfig.from_ui(ui)
    if config.link_seconds:
        return os.fsdecode(urls.relative(name))
    return f"{os.fsdecode(config.public_url)}/{key}" if config.public_url else ""


def is_ours(repo: RepoT, entry: Entry) -> bool:
    """Tell whether an entry is of this repository, in the store that is configured.

    Its register may be that of another one, of which this is a copy.
    """
    config = BundlesConfig.from_ui(repo.ui)
    return (
        entry.path.encode() == config.store
        and entry.url == url_of(repo.ui, entry.key, entry.name.encode())
        and keys.is_of(repo, entry.key)
    )


def is_exposed(repo: RepoT, entry: Entry) -> bool:
    """Tell whether an entry is where it may not be, or not any more."""
    if entry.path.encode() == BundlesConfig.from_ui(repo.ui).store:
        return not may_hold(repo.ui)
    return not urls.may_leave(repo.ui)


def link(repo: RepoT, entry: Entry) -> bytes:
    """Return a link to a bundle; empty if there is none, or none can be made.

    Clients of Mercurial and git get it directly: they follow no redirects.
    """
    ui = repo.ui
    seconds = BundlesConfig.from_ui(ui).link_seconds
    trust = Trust.of(ui, repo.store.path, repo.path)
    if not entry.key or not seconds or not trust.usable or not is_ours(repo, entry):
        return b""
    try:
        return storeclient.client_of(entry.path).link(entry.key, seconds).encode()
    except (error.Abort, error.StorageError) as exc:
        ui.log(b"amalgam", b"no link to a bundle: %s\n", stringutil.forcebytestr(exc))
        return b""


def direct(repo: RepoT, entry: Entry, base: bytes) -> bytes:
    """Return a link, or the address for clients of a bundle that has none.

    ``base`` as for ``urls.absolute``.
    """
    return link(repo, entry) or urls.absolute(os.fsencode(entry.url), base)


def delete(repo: RepoT, key: str, place: str) -> bool:
    """Delete an object and what is left of its upload, or warn and return ``False``.

    What is of another repository, or in another store, is forgotten, and stays.
    """
    ui = repo.ui
    if place.encode() != BundlesConfig.from_ui(ui).store or not keys.is_of(repo, key):
        path = f"{place}/{key}".encode()
        ui.warn(one_line(_(b"warning: bundle is not deleted: %s") % path))
        ui.warn(_(b"(it is of another repository, or not in amalgam.bundles.url)\n"))
        return True
    try:
        storeclient.client_of(place).discard(key)
    except (error.Abort, error.StorageError) as exc:
        text = _(b"warning: cannot delete bundle %s: %s")
        text %= (key.encode(), stringutil.forcebytestr(exc))
        ui.warn(one_line(text))
        return False
    return True
