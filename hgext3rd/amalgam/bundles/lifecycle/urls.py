"""The addresses of bundles: which ones clients are told, and who may be told.

A bundle that only hgweb serves has an address relative to that of its repository: under
which name clients reach the server is known when one asks, and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import util
from mercurial.utils import urlutil

from ...config import BundlesConfig
from .formats import is_uploaded

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT

ROUTE = b"amalgam/bundles"
"""Below the URL of a repository; hgweb answers there."""


def relative(name: bytes) -> bytes:
    """Return the address of a file that hgweb serves."""
    return b"%s/%s" % (ROUTE, name)


def is_relative(url: bytes) -> bool:
    """Tell whether ``url`` is one of ``relative``."""
    return url.startswith(ROUTE + b"/")


def is_restricted(ui: UiT) -> bool:
    """Tell whether hgweb lets only some users read the repository.

    A setting that is not trusted restricts, too.
    """

    def names(item: bytes) -> list[bytes]:
        return list(ui.configlist(b"web", item, untrusted=True))

    allowed = names(b"allow_read")
    if names(b"deny_read") or (allowed and b"*" not in allowed):
        return True
    return not ui.configbool(b"web", b"allow-pull", untrusted=True)


def may_leave(ui: UiT) -> bool:
    """Tell whether bundles may be put where hgweb's permissions do not hold."""
    external = BundlesConfig.from_ui(ui).external
    return not is_restricted(ui) if external is None else external


def uploads(ui: UiT) -> bool:
    """Tell whether bundles are uploaded by the operator's command."""
    return is_uploaded(ui) and may_leave(ui)


def of_directory(ui: UiT, name: bytes) -> bytes:
    """Return the address of a file in the directory where bundles are put."""
    url = BundlesConfig.from_ui(ui).url
    return b"%s/%s" % (url, name) if url and may_leave(ui) else relative(name)


def base_of(ui: UiT, req: Any) -> bytes:
    """Return the URL of the repository that a web request is for, with a slash.

    The server is what ``web.baseurl`` says, or else what the client called it.
    """
    root = req.baseurl
    configured = urlutil.url(ui.config(b"web", b"baseurl") or b"")
    if configured.scheme and configured.host:
        root = b"%s://%s" % (configured.scheme, configured.host)
        if configured.port:
            root += b":%s" % configured.port
    return b"%s%s/" % (root, util.urlreq.quote(req.apppath))


def base_of_peer(repo: RepoT, proto: Any) -> bytes:
    """Return the same for a request in Mercurial's protocol; empty if not by HTTP."""
    req = getattr(proto, "_req", None)
    return base_of(repo.ui, req) if req is not None else b""


def absolute(url: bytes, base: bytes) -> bytes:
    """Return the address that a client needs; empty if it cannot reach the file."""
    if not is_relative(url):
        return url
    return base + url if base else b""
