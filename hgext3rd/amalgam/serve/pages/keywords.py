"""Template keywords of hgweb: a changeset's commit, and how to clone.

They are empty unless the client could fetch by git. That is found out when the first of
them is used.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from mercurial import error, registrar
from mercurial.hgweb import common
from mercurial.node import bin as bin_node, hex as hex_node

from ...bundles.lifecycle import urls
from ...config import wants_serve
from ...gitstore.state import ids, selection
from ...index import openhooks
from ...loading import load
from .. import permissions
from ..admission import Admission
from ..refusal import RefusedError
from . import cloneurl, insertions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...gitstore.state.oidmap import OidMap
    from ...gitstore.store import GitStore


def send(
    orig: Callable[..., Any], rctx: Any, name: bytes, *args: Any, **kwargs: Any
) -> Any:
    """Answer with the page ``name``, as ``requestcontext.sendtemplate``."""
    load(sys.modules[__name__])
    ui = rctx.repo.ui
    if openhooks.enabled(ui) and wants_serve(ui):
        page, tmpl = _Page(rctx), rctx.tmpl
        keyword = registrar.templatekeyword(tmpl.defaults)
        keyword(b"gitnode", requires=())(
            lambda context, mapping: page.commit_of(context.symbol(mapping, b"node"))
        )
        keyword(b"gitclone", requires=())(lambda _context, _mapping: page.clone_url)
        keyword(b"gitbundles", requires=())(lambda _context, _mapping: page.bundles_url)
        insertions.insert(tmpl, tmpl.defaults[b"style"], name)
    return orig(rctx, name, *args, **kwargs)


class _Page:
    """A page of hgweb, and what its client may know of git."""

    def __init__(self, rctx: Any) -> None:
        self._rctx = rctx

    @functools.cached_property
    def _store(self) -> GitStore | None:
        """The store, if the client could fetch from it."""
        rctx = self._rctx
        try:
            for hook in common.permhooks:
                hook(rctx, rctx.req, b"pull")
            proto = permissions.of_http(rctx.repo, rctx.req, lambda _permission: None)
            return Admission(rctx.repo, proto).store
        except (common.ErrorResponse, RefusedError):
            return None

    @functools.cached_property
    def _oidmap(self) -> OidMap | None:
        store = self._store
        try:
            if store is None or store.docket().refused:
                return None
            return store.open_map()
        except (OSError, error.StorageError):
            return None  # the operator is told elsewhere

    def commit_of(self, node_hex: Any) -> bytes:
        """Return the commit of a changeset; nothing if that is not exported."""
        if not isinstance(node_hex, bytes) or not ids.is_full(node_hex):
            return b""
        oidmap, store, node = self._oidmap, self._store, bin_node(node_hex)
        if oidmap is None or store is None:
            return b""
        view = selection.view_of(store.repo, store.config.export)
        (oid,) = oidmap.oids([node])
        return hex_node(oid) if oid and view.changelog.hasnode(node) else b""

    @functools.cached_property
    def clone_url(self) -> bytes:
        """The address for ``git clone``; empty if there is none."""
        return cloneurl.of_repository(self._base) if self._store else b""

    @functools.cached_property
    def bundles_url(self) -> bytes:
        """The address for ``--bundle-uri``; empty if there are no bundles."""
        repo = self._rctx.repo
        return cloneurl.of_bundles(repo, self._base) if self._store else b""

    @property
    def _base(self) -> bytes:
        """The address of the repository, as this client calls it."""
        return urls.base_of(self._rctx.repo.ui, self._rctx.req)
