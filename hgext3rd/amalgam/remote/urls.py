"""URLs of git remotes: which are allowed, and how they are shown.

Knows git's three forms: URLs, ``[user@]host:path`` of ssh, and paths. Passwords do not
belong in a URL: it is in files, messages and lists of processes. Transports that run a
program of the URL's choice (``ext::``) are refused here, and by git
(``GIT_ALLOW_PROTOCOL``).
"""

from __future__ import annotations

import hashlib
import os
import re

from mercurial import error
from mercurial.i18n import _

from ..records import Record
from ..terminal import printable

PROTOCOLS = (b"file", b"git", b"http", b"https", b"ssh")
_SCHEME = re.compile(rb"(?:git\+)?([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_HELPER = re.compile(rb"[A-Za-z0-9][A-Za-z0-9+.-]*::")
# a colon before the first slash, as git decides it
_SCP = re.compile(rb"([^/:]+|[^/]*\[[^]/]+\]):(.*)", re.DOTALL)
# a long random word, as hosts give them out
_TOKEN = re.compile(rb"(?:gh[a-z]_|github_pat_|glpat-)\w+|[A-Za-z0-9_-]{32,}")
_CREDENTIALS = re.compile(rb"([^/@]*)@", re.DOTALL)


class RemoteUrl(Record):
    """The address of a git remote, checked."""

    url: bytes
    """As git takes it; a path is absolute."""
    protocol: bytes
    """One of ``PROTOCOLS``."""

    @property
    def shown(self) -> bytes:
        """The address for people, without a name before the host of a web address."""
        if self.protocol not in (b"http", b"https"):
            return printable(self.url)
        scheme, _slashes, rest = self.url.partition(b"://")
        host, slash, path = rest.partition(b"/")
        bare = b"***@" * (b"@" in host) + host.rpartition(b"@")[2]
        return printable(scheme + b"://" + bare + slash + path.partition(b"?")[0])

    @property
    def key(self) -> bytes:
        """A name for files about a remote that has no other name."""
        return b"url-" + hashlib.sha1(self.url).hexdigest()[:16].encode()

    @property
    def place(self) -> bytes:
        """Host and path, which a repository has in all protocols of its host.

        The port of ssh is no part of it, nor are a user and ``.git``.
        """
        _scheme, slashes, rest = self.url.partition(b"://")
        if not slashes:
            scp = _SCP.fullmatch(self.url) if self.protocol == b"ssh" else None
            rest = b"/".join(scp.groups()) if scp else self.url
        host, _slash, path = rest.partition(b"/")
        host = host.rpartition(b"@")[2].lower()
        if self.protocol == b"ssh":
            host = host.partition(b":")[0]
        path = path.strip(b"/").removesuffix(b".git").rstrip(b"/")
        return host + b"/" + path


def parsed(text: bytes, base: bytes) -> RemoteUrl:
    """Return the remote that ``text`` names; a relative path starts at ``base``.

    ``git+`` before a URL, as in Mercurial's paths, is left out. ``InputError`` if git
    may not or cannot use it.
    """
    is_odd = text.startswith(b"-") or text != printable(text)
    if not text or is_odd or _HELPER.match(text):
        raise error.InputError(
            _(b"'%s' is not the address of a git repository") % _without_secret(text),
            hint=_(b"use https://, ssh://, git://, HOST:PATH, or a path"),
        )
    if match := _SCHEME.fullmatch(text):
        protocol, rest = match[1].lower(), match[2]
        if protocol not in PROTOCOLS:
            raise error.InputError(
                _(b"git cannot push to '%s://'") % match[1],
                hint=_(b"use https://, ssh://, git://, HOST:PATH, or a path"),
            )
        _refuse_credentials(protocol, rest)
        return RemoteUrl(text.removeprefix(b"git+"), protocol)
    if (match := _SCP.fullmatch(text)) and not os.path.exists(text):
        if match[1].startswith(b"-") or match[2].startswith(b"-"):
            raise error.InputError(
                _(b"'%s' is not the address of a git repository") % text,
                hint=_(b"use https://, ssh://, git://, HOST:PATH, or a path"),
            )
        return RemoteUrl(text, b"ssh")
    path = os.path.normpath(os.path.join(base, text))
    # normpath keeps two slashes at the beginning
    return RemoteUrl(path.replace(b"//", b"/"), b"file")


def _refuse_credentials(protocol: bytes, rest: bytes) -> None:
    """Abort if a password is in the URL, or a token in place of the user's name."""
    host = rest.partition(b"/")[0]
    if host.startswith(b"-"):
        raise error.InputError(
            _(b"'%s' is not the name of a host") % host,
            hint=_(b"write the host after '%s://'") % protocol,
        )
    found = _CREDENTIALS.match(host)
    name = found[1] if found else b""
    is_token = protocol.startswith(b"http") and _TOKEN.fullmatch(name)
    port = b"" if host.endswith(b"]") else host.rpartition(b"@")[2].partition(b":")[2]
    has_slash = protocol.startswith(b"http") and port.strip(b"0123456789:]abcdef[")
    if b":" in name or is_token or has_slash:
        raise error.InputError(
            _(b"the URL contains a password"),
            hint=_(
                b"leave it out; keep it in a credential helper of git (see 'git "
                b"help credentials')"
            ),
        )


def _without_secret(text: bytes) -> bytes:
    return b"..." if b"@" in text else printable(text)
