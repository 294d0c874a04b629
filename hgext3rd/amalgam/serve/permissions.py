"""Permissions: a client may fetch by git if it may pull all of that by Mercurial.

Mercurial decides for each request: its rules, the hooks of extensions, and the view of
its own protocol for the same client.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from mercurial import error, hook, wireprotoserver, wireprotov1server
from mercurial.i18n import _
from mercurial.node import hex as hex_node
from mercurial.utils import stringutil

from ..clonebundles import validity
from ..gitstore import selection
from ..terminal import utf8_of
from .errors import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable
    from ipaddress import IPv4Address, IPv6Address

    from mercurial.interfaces.types import RepoT

    from ..gitstore.store import GitStore

_OF_EACH_USER = b"narrowacl"
"""The section of the extension narrow that gives each user other files."""


def check_view(repo: RepoT, store: GitStore, proto: Any) -> None:
    """Refuse a client whose view in Mercurial lacks exported changesets.

    ``proto``: the client's wire protocol in Mercurial.
    """
    if any(repo.ui.configitems(_OF_EACH_USER, untrusted=True)):
        raise HttpError(
            403,
            b"this repository shows each user other files (narrowacl), "
            b"which git cannot do",
        )
    shown = wireprotov1server.getdispatchrepo(repo, proto, b"getbundle")
    exported = selection.view_of(store.repo, store.config.export)
    if (
        shown.filtername == exported.filtername
        and shown.shared() == store.repo.shared()
    ):
        return
    if shown.changelog.filteredrevs - exported.changelog.filteredrevs:
        raise HttpError(
            403,
            b"git would be shown more of this repository than Mercurial is",
            logged=_(b"view '%s' shows less than what is exported")
            % (shown.filtername or b""),
        )


def of_http(repo: RepoT, req: Any, may: Callable[[bytes], Any]) -> Any:
    """Return how the client of ``req`` would speak; ``may`` checks a permission."""
    return wireprotoserver.httpv1protocolhandler(req, repo.ui, may)


def client_of(proto: Any) -> bytes:
    """Return a client's name among those that share slots; empty if unknown.

    ``proto``: its wire protocol in Mercurial. A client is a user at an address, as far
    as they are known. If the server's peer is on this machine, it may be a proxy, and
    the last of ``X-Forwarded-For`` is the client.
    """
    req, user = getattr(proto, "_req", None), b""
    if req is None:
        address = proto.client().rpartition(b"remote:ssh:")[2]
    else:
        address, user = req.rawenv.get(b"REMOTE_ADDR", b""), req.remoteuser or b""
        peer = _parsed(address)
        if not address or (peer and peer.is_loopback):
            named = req.headers.get(b"X-Forwarded-For", b"").rpartition(b",")[2]
            address = named.strip() or address
    found = _parsed(address)
    if found and found.version == 6:  # one site has all of it
        address = b"%x/64" % (int(found) >> 64)
    return b"%s %s" % (user, address) if user or address else b""


def _parsed(address: bytes) -> IPv4Address | IPv6Address | None:
    try:
        found = ipaddress.ip_address(address.decode("latin-1"))
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def ask_hooks(repo: RepoT, *, contents: bool, names: bool) -> None:
    """Let hooks refuse contents (``preoutgoing``) and bookmarks (``prelistkeys``)."""
    try:
        validity.ask_hooks(repo, contents=contents, names=names)
    except error.Abort as exc:
        raise HttpError(403, utf8_of(stringutil.forcebytestr(exc))) from None


def are_hooks_told(repo: RepoT) -> bool:
    """Return whether hooks ``outgoing`` are configured."""
    return bool(hook.hashook(repo.ui, b"outgoing"))


def tell_hooks(repo: RepoT, node: bytes | None) -> None:
    """Run the hooks ``outgoing``; ``node``: the first changeset that is asked for."""
    repo.hook(b"outgoing", node=hex_node(node or b""), source=b"serve")
