"""Additions to hgweb's pages: git ids, and the commands that clone with git.

Template keywords show a changeset's commit and the URLs for git. They are empty unless
the client may fetch by git, which is checked when the first is used. Templates of
Mercurial's styles are extended in the way of its extension ``highlight``; other
templates can use the keywords. Does not know the URL of a repository: callers pass
``base``, with a slash at its end.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import TYPE_CHECKING, Any

from mercurial import error, registrar
from mercurial.hgweb import common
from mercurial.node import bin as bin_node, hex as hex_node

from ..clonebundles import advertise, locations, validity
from ..config import wants_serve
from ..configitems import is_enabled
from ..gitstore import ids, refusednames, selection
from ..loading import load
from ..records import Record
from . import permissions
from .admission import Admission
from .errors import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mercurial.interfaces.types import RepoT

    from ..gitstore.oidmap import OidMap
    from ..gitstore.store import GitStore


class Insertion(Record):
    """A text before the first occurrence of another, in some templates of a style."""

    templates: Sequence[bytes]
    anchor: bytes
    text: bytes


_LOGS = (b"shortlog", b"changelog")
_WRAPPED = b' style="overflow-wrap: anywhere"'
_COMMANDS = (
    b"<tt%s>git clone {gitclone|escape}</tt>" % _WRAPPED,
    b"<tt%s>git clone --bundle-uri={gitbundles|escape} {gitclone|escape}</tt>"
    % _WRAPPED,
)
_UNREFUSED = b"<tt%s>{gitrefused|escape}</tt>" % _WRAPPED
_GITNODE = b"<tt%s>{gitnode}</tt>" % _WRAPPED


def _shown(keyword: bytes, text: bytes) -> bytes:
    """Return a template that shows ``text`` if a keyword is not empty."""
    return b"{if(%s, '%s')}" % (keyword, text)


def _commands(form: bytes) -> bytes:
    """Return the commands to clone, each in a ``form`` with a label before it."""
    plain, from_bundles = _COMMANDS
    return b"".join(
        (
            _shown(b"gitclone", form % (b"git", plain)),
            _shown(
                b"if(gitclone, gitbundles)", form % (b"git, from bundles", from_bundles)
            ),
            _shown(
                b"gitrefused", form % (b"git, which refuses names here", _UNREFUSED)
            ),
        )
    )


_BEFORE_OBSOLETE = b"{if(obsolete, succsandmarkers%obsfateentry)}"
_PAPER = (
    Insertion(_LOGS, b'<div class="navigate">', _commands(b"<p>%s: %s</p>\n")),
    Insertion(
        (b"changeset",),
        b'<tr>\n <th class="author">parents</th>',
        _shown(
            b"gitnode",
            b'<tr>\n <th class="author">git</th>\n'
            b' <td class="author">%s</td>\n</tr>\n' % _GITNODE,
        ),
    ),
)
_JSON = (
    *(b"changeset", b"changelistentry", b"graphentry", b"filerevision", b"filediff"),
    *(b"filecomparison", b"fileannotate", b"tagentry", b"bookmarkentry"),
    b"branchentry",
)
_OF_STYLES = {
    b"paper": _PAPER,
    b"coal": _PAPER,
    b"gitweb": (
        Insertion(
            (b"summary",),
            b"<tr><td>last change</td>",
            _commands(b"<tr><td>%s</td><td>%s</td></tr>\n"),
        ),
        Insertion(
            (b"changeset",),
            _BEFORE_OBSOLETE,
            _shown(b"gitnode", b"<tr><td>git commit</td><td>%s</td></tr>" % _GITNODE),
        ),
    ),
    b"monoblue": (
        Insertion(
            (b"summary",),
            b"<dt>last change</dt>",
            _commands(b"<dt>%s</dt><dd>%s</dd>\n"),
        ),
        Insertion(
            (b"changeset",),
            _BEFORE_OBSOLETE,
            _shown(b"gitnode", b"<dt>git commit</dt><dd>%s</dd>" % _GITNODE),
        ),
    ),
    b"spartan": (
        Insertion(
            _LOGS, b'<form action="{url|urlescape}log">', _commands(b"<p>%s: %s</p>\n")
        ),
        Insertion(
            (b"changeset",),
            _BEFORE_OBSOLETE,
            _shown(
                b"gitnode",
                b'<tr>\n <th class="changeset">git commit:</th>\n'
                b' <td class="changeset">%s</td>\n</tr>' % _GITNODE,
            ),
        ),
    ),
    b"json": (
        Insertion(
            _JSON,
            b'"node": {node|json},',
            b'"gitnode": {if(gitnode, gitnode|json, "null")},\n',
        ),
    ),
}


def insert(tmpl: Any, style: bytes, page: bytes) -> list[bytes]:
    """Change the templates that ``page`` needs; return the names of those changed.

    ``tmpl`` is the templater of one request. Templates in files of their own are only
    read for the page itself.
    """
    changed = []
    for insertion in _OF_STYLES.get(style, ()):
        for name in insertion.templates:
            if name == page and name in tmpl:
                tmpl.load(name)
            text = tmpl.cache.get(name, b"")
            before, anchor, after = text.partition(insertion.anchor)
            if anchor:
                tmpl.cache[name] = before + insertion.text + anchor + after
                changed.append(name)
    return changed


_PLAIN = re.compile(rb"https?://[\w.:\[\]-]{1,255}(?:/[\w.~%/-]{0,2000})?", re.ASCII)
"""URLs without characters that a shell would quote. The client names the host."""


def clone_url(base: bytes) -> bytes:
    """Return the URL for ``git clone``; empty if it would need quotes."""
    return _plain(base if base.count(b"/") < 4 else base.rstrip(b"/"))


def bundle_list_url(repo: RepoT, base: bytes) -> bytes:
    """Return the URL for ``--bundle-uri``; empty without bundles."""
    try:
        if not validity.may_reach_git(repo) or not validity.published_chain(repo):
            return b""
    except error.StorageError:
        return b""  # the operator is told elsewhere
    return _plain(base + locations.relative_url(advertise.BUNDLE_LIST))


def _plain(url: bytes) -> bytes:
    return url if _PLAIN.fullmatch(url) else b""


def send(
    orig: Callable[..., Any], rctx: Any, name: bytes, *args: Any, **kwargs: Any
) -> Any:
    """Answer with the page ``name``, as ``requestcontext.sendtemplate``."""
    load(sys.modules[__name__])
    ui = rctx.repo.ui
    tmpl = rctx.tmpl
    # the page of an error follows one that failed, with the same keywords
    is_first = b"gitnode" not in tmpl.defaults
    if is_first and is_enabled(ui) and wants_serve(ui):
        page = _Page(rctx)
        keyword = registrar.templatekeyword(tmpl.defaults)
        keyword(b"gitnode", requires=())(
            lambda context, mapping: page.commit_of(context.symbol(mapping, b"node"))
        )
        keyword(b"gitclone", requires=())(lambda _context, _mapping: page.clone_url)
        keyword(b"gitbundles", requires=())(lambda _context, _mapping: page.bundles_url)
        keyword(b"gitrefused", requires=())(lambda _context, _mapping: page.unrefused)
        insert(tmpl, tmpl.defaults[b"style"], name)
    return orig(rctx, name, *args, **kwargs)


class _Page:
    """A page of hgweb, and the git data that its client may see."""

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
        except (common.ErrorResponse, HttpError):
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
        """The URL for ``git clone``, or empty."""
        return clone_url(self._base) if self._store else b""

    @functools.cached_property
    def bundles_url(self) -> bytes:
        """The URL for ``--bundle-uri``; empty without bundles."""
        repo = self._rctx.repo
        return bundle_list_url(repo, self._base) if self._store else b""

    @functools.cached_property
    def unrefused(self) -> bytes:
        """The command that clones in spite of names that git refuses, or empty."""
        name = self.clone_url and refusednames.in_clone(self._rctx.repo)
        return refusednames.clone_command(name, self.clone_url) if name else b""

    @property
    def _base(self) -> bytes:
        """The address of the repository, as this client calls it."""
        return locations.base_of(self._rctx.repo.ui, self._rctx.req)
