"""Every config item of amalgam: its default, and how its value is read.

A group of items is read once into a record; nothing else asks ``ui``. What the
items mean to a user is in the README and in ``hg help amalgam``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mercurial import error, registrar, util
from mercurial.i18n import _

from .records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import UiT

configtable: dict[bytes, dict[bytes, Any]] = {}
configitem = registrar.configitem(configtable)

configitem(b"amalgam", b"bundles.directory", default=None)
configitem(b"amalgam", b"bundles.external", default=None)
configitem(b"amalgam", b"bundles.retention", default=7 * 24 * 3600)
configitem(b"amalgam", b"bundles.url", default=None)
configitem(b"amalgam", b"git.check-texts", default=True)
configitem(b"amalgam", b"git.dialect", default=b"cinnabar")
configitem(b"amalgam", b"git.export", default=b"served")
configitem(b"amalgam", b"git.memory", default=b"192 MB")
configitem(b"amalgam", b"git.path", default=None)
configitem(b"amalgam", b"git.program", default=b"git")
configitem(b"amalgam", b"git.refs", default=lambda: [b"bookmarks", b"tips", b"tags"])
configitem(b"amalgam", b"index.node-map", default=True)
configitem(b"amalgam", b"index.prefault", default=b"none")
configitem(b"clone-bundles", b"git.formats", default=list)
configitem(b"experimental", b"mmapindex", default=None)
configitem(b"experimental", b"mmapindexthreshold", default=None)

DIALECTS = (b"cinnabar",)
EXPORTS = (b"served", b"public")
REF_KINDS = (b"bookmarks", b"tips", b"heads", b"tags")
# with less than this, an export would be files and no memory
LEAST_MEMORY_BYTES = 1 << 20
PREFAULTS = (b"none", b"willneed", b"populate")


class GitConfig(Record):
    """The items ``amalgam.git.*``, checked."""

    dialect: bytes
    """Whose commit ids: one of ``DIALECTS``."""
    export: bytes
    """Which changesets may leave: one of ``EXPORTS``."""
    refs: frozenset[bytes]
    """What becomes a ref: some of ``REF_KINDS``."""
    check_texts: bool
    """Whether each text is verified against its node."""
    memory_bytes: int
    """Bound of the anonymous memory of one export."""
    path: bytes | None
    """Where the git stores are; relative to the file that says so. Unset or empty for
    ``.hg/amalgam/git``."""
    program: bytes
    """The git program, a name on ``PATH`` or a path; of trusted configuration only."""

    @classmethod
    def from_ui(cls, ui: UiT, dialect: bytes = b"") -> GitConfig:
        """Read the items; a value that is not allowed is a ``ConfigError``.

        A ``dialect`` that is given stands for the one configured. What is exported is
        the choice of who owns the repository, trusted or not; where to and by which
        program is not.
        """
        if dialect and dialect not in DIALECTS:
            raise error.InputError(
                _(b"unknown dialect '%s'") % dialect,
                hint=_(b"allowed: %s") % b", ".join(DIALECTS),
            )
        refs = ui.configlist(b"amalgam", b"git.refs", untrusted=True)
        for kind in refs:
            _check(b"git.refs", kind, REF_KINDS)
        return cls(
            dialect=dialect or _one_of(ui, b"git.dialect", DIALECTS),
            export=_one_of(ui, b"git.export", EXPORTS),
            refs=frozenset(refs),
            check_texts=ui.configbool(b"amalgam", b"git.check-texts"),
            memory_bytes=_memory_bytes(ui),
            path=_trusted_path(ui, b"git.path"),
            program=util.expandpath(ui.config(b"amalgam", b"git.program")),
        )


class IndexConfig(Record):
    """From which size on the indexes of changelog and manifest are mapped, and how.

    The items are ``experimental.mmapindex`` and ``experimental.mmapindexthreshold``;
    Mercurial's own, ``storage.revlog.mmap.index*``, where these are not set; and
    ``amalgam.index.prefault``.
    """

    threshold_bytes: int | None
    """Indexes of at least this size are mapped; ``None``: no index is."""
    item: bytes
    """The config item that decided: the threshold's, or what switched mapping off."""
    prefault: bytes = PREFAULTS[0]
    """What of an index is read ahead when it is mapped: one of ``PREFAULTS``."""

    @classmethod
    def from_ui(cls, ui: UiT, stock_threshold_bytes: int | None) -> IndexConfig:
        """Read the items. ``stock_threshold_bytes``: what Mercurial made of its own."""
        prefault = _one_of(ui, b"index.prefault", PREFAULTS)
        threshold, item = cls._threshold(ui, stock_threshold_bytes)
        return cls(threshold, item, prefault)

    @staticmethod
    def _threshold(
        ui: UiT, stock_threshold_bytes: int | None
    ) -> tuple[int | None, bytes]:
        wanted = ui.configbool(b"experimental", b"mmapindex")
        threshold = ui.configbytes(b"experimental", b"mmapindexthreshold")
        if threshold is not None and threshold < 0:
            raise error.ConfigError(
                _(b"config experimental.mmapindexthreshold is %d") % threshold,
                hint=_(b"0 maps every index, and experimental.mmapindex=no none"),
            )
        if wanted is False:
            return None, b"experimental.mmapindex"
        if threshold is not None:
            return threshold, b"experimental.mmapindexthreshold"
        stock = b"revlog.mmap.index:size-threshold"
        if wanted:
            return ui.configbytes(b"storage", stock), b"storage." + stock
        if stock_threshold_bytes is None:
            return None, b"storage.revlog.mmap.index"
        return stock_threshold_bytes, b"storage." + stock


class BundlesConfig(Record):
    """The items ``amalgam.bundles.*``, and ``clone-bundles.git.formats``.

    They decide what is written where, so only trusted configuration counts.
    """

    formats: list[bytes]
    """Which bundles for git are wanted, as it is configured."""
    directory: bytes | None
    """Where bundles are put; ``None`` for ``.hg/amalgam/bundles``."""
    url: bytes
    """Where that directory is served, without a slash at the end; empty if only hgweb
    does."""
    external: bool | None
    """Whether bundles may be put where the permissions of the repository do not hold;
    ``None``: if anybody may read it."""
    retention_seconds: int
    """How long a bundle that was replaced is kept."""

    @classmethod
    def from_ui(cls, ui: UiT) -> BundlesConfig:
        """Read the items; a value that is not allowed is a ``ConfigError``."""
        retention = ui.configint(b"amalgam", b"bundles.retention")
        if retention < 0:
            raise error.ConfigError(
                _(b"config amalgam.bundles.retention is %d") % retention,
                hint=_(b"it is a number of seconds"),
            )
        return cls(
            formats=ui.configlist(b"clone-bundles", b"git.formats"),
            directory=_trusted_path(ui, b"bundles.directory"),
            url=_url(ui, b"bundles.url"),
            external=ui.configbool(b"amalgam", b"bundles.external"),
            retention_seconds=retention,
        )


def wants_node_map(ui: UiT) -> bool:
    """Tell whether nodes are to be looked up in a node map: ``amalgam.index.node-map``.

    As with all that only affects speed, the choice of who owns the repository counts.
    """
    return bool(ui.configbool(b"amalgam", b"index.node-map", untrusted=True))


def _trusted_path(ui: UiT, name: bytes) -> bytes | None:
    """Return an absolute path, ``None`` if it is unset or empty.

    ``ConfigError`` if it is set in a file that is not trusted: without it, others would
    look in one place, and we in another.
    """
    if ui.config(b"amalgam", name, untrusted=True) != ui.config(b"amalgam", name):
        raise error.ConfigError(
            _(b"config amalgam.%s is set in a file that is not trusted") % name,
            hint=_(b"see 'hg help config.trusted'"),
        )
    if not ui.config(b"amalgam", name):
        return None
    return os.path.abspath(ui.configpath(b"amalgam", name))


def _memory_bytes(ui: UiT) -> int:
    """Return ``amalgam.git.memory``; what is no size, or too little, is an error."""
    memory_bytes: int = ui.configbytes(b"amalgam", b"git.memory")
    if memory_bytes < LEAST_MEMORY_BYTES:
        raise error.ConfigError(
            _(b"config amalgam.git.memory is '%s'")
            % ui.config(b"amalgam", b"git.memory"),
            hint=_(b"a size such as 192 MB, at least %s")
            % util.bytecount(LEAST_MEMORY_BYTES),
        )
    return memory_bytes


def _url(ui: UiT, name: bytes) -> bytes:
    url: bytes = ui.config(b"amalgam", name) or b""
    if url and not url.startswith((b"http://", b"https://")):
        raise error.ConfigError(
            _(b"config amalgam.%s is '%s'") % (name, url),
            hint=_(b"it begins with http:// or https://"),
        )
    return url.rstrip(b"/")


def _one_of(ui: UiT, name: bytes, allowed: Iterable[bytes]) -> bytes:
    value: bytes = ui.config(b"amalgam", name, untrusted=True)
    _check(name, value, allowed)
    return value


def _check(name: bytes, value: bytes, allowed: Iterable[bytes]) -> None:
    if value not in allowed:
        raise error.ConfigError(
            _(b"config amalgam.%s is '%s'") % (name, value),
            hint=_(b"allowed: %s") % b", ".join(allowed),
        )
