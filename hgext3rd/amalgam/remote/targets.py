"""Remotes by name or URL: their configuration and their place below ``.hg/amalgam``."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..config import ReplicaConfig, remote_of, replicas
from ..gitstore.export.request import replication_directory
from ..records import Record
from ..terminal import printable
from . import urls
from .ledger import Ledger
from .refmap import RefMap
from .transport import access_of

if TYPE_CHECKING:
    from ..files import Directory, Placement
    from ..gitstore.git.process import Access
    from ..gitstore.store import GitStore
    from .urls import RemoteUrl

_NAME = re.compile(rb"[A-Za-z0-9_-]+")


class Target(Record):
    """A remote, with all that a replication needs to know of it."""

    name: bytes
    """As in the configuration; ``RemoteUrl.key`` for others."""
    remote: RemoteUrl
    config: ReplicaConfig
    map: RefMap
    access: Access
    directory: Directory
    """Of its ledger."""
    placement: Placement

    @property
    def shown(self) -> bytes:
        """Its name, or its URL if the configuration does not have it."""
        return self.name if self.name != self.remote.key else self.remote.shown


def named(store: GitStore, name: bytes, *, in_background: bool = False) -> Target:
    """Return the remote that ``amalgam.replicate.NAME`` sets.

    ``ConfigError`` if it is not set, or not valid.
    """
    ui, root = store.repo.ui, store.repo.root
    config = ReplicaConfig.from_ui(ui, name)
    with remote_of(b"amalgam.replicate.%s" % name, config.url):
        remote = urls.parsed(config.url, root)
        mapping = RefMap(config.patterns)
    if config.hides_refs and remote.protocol not in (b"file", b"ssh"):
        raise error.ConfigError(
            _(b"amalgam.replicate.%s.hide-refs needs a path or ssh") % name,
            hint=_(b"set it to no, or set amalgam.replicate.%s to such a URL") % name,
        )
    access = access_of(ui, store.repository.git, remote, in_background=in_background)
    directory = replication_directory(store.repo).sub(name)
    before = replication_directory(store.repo).sub(remote.key)
    if Ledger.url(directory) != remote.url == Ledger.url(before):
        directory = before  # it had no name when it was pushed to
    return Target(name, remote, config, mapping, access, directory, store.placement)


def given(store: GitStore, text: bytes) -> Target:
    """Return the remote of an argument: a name, or a URL or path."""
    ui, names = store.repo.ui, replicas(store.repo.ui)
    is_path = b"/" in text or b":" in text or os.path.isdir(text)
    if text in names or (_NAME.fullmatch(text) and not is_path):
        if text not in names:
            known = _(b"known names: %s") % b", ".join(names)
            raise error.InputError(
                _(b"unknown remote '%s'") % printable(text),
                hint=known if names else _(b"set amalgam.replicate.%s") % text,
            )
        return named(store, text)
    remote = urls.parsed(text, os.getcwdb())
    for name in names:
        target = named(store, name)
        if target.remote == remote:
            return target
    config = ReplicaConfig.from_ui(ui, remote.key)
    access = access_of(ui, store.repository.git, remote, in_background=False)
    directory = replication_directory(store.repo).sub(remote.key)
    return Target(
        remote.key, remote, config, RefMap(()), access, directory, store.placement
    )
