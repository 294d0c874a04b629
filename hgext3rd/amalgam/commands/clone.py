"""The command ``git::clone-command``.

Owns the addresses of a repository that no request names: from the configuration of
hgweb, or from an address for Mercurial users. ``serve.pages`` has the form of web
addresses, and the list of bundles.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any

from mercurial import error, util
from mercurial.hgweb import hgwebdir_mod
from mercurial.i18n import _
from mercurial.utils import stringutil, urlutil

from .. import compat
from ..config import GitConfig, ServeConfig, wants_serve
from ..gitstore import refusednames
from ..gitstore.store import GitStore
from ..records import Record
from ..serve import pages
from ..terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT, UiT

_WEB = (b"http", b"https")
_SSH = b"ssh"
_HERE = b"file"
_HOST = re.compile(rb"[\w.:\[\]-]{1,255}", re.ASCII)
_OWN_FILES = (b"hgrc", b"hgrc-not-shared")


class Way(Record):
    """A ``git clone`` command, and its parts."""

    transport: bytes
    """``http``, ``https``, ``ssh`` or ``file``."""
    url: bytes
    """An address, or a path."""
    bundles_url: bytes = b""
    """The list of bundles that the command names; empty if it names none."""
    options: tuple[bytes, ...] = ()
    """Options of git, before the word ``clone``."""
    name: bytes = b""
    """The directory to clone into; empty if git finds a good one."""

    def command(self) -> bytes:
        """Return the line to type in a shell."""
        words = [b"git", *self.options, b"clone"]
        if self.bundles_url:
            words.append(b"--bundle-uri=" + self.bundles_url)
        words.append(self.url)
        if self.name:
            words.append(self.name)
        return os.fsencode(shlex.join(map(os.fsdecode, words)))


def run(ui: UiT, repo: RepoT | None, url: bytes, **opts: Any) -> int:
    """Answer ``git::clone-command``; ``repo`` is None outside of a repository."""
    if url and opts["web_conf"]:
        raise error.InputError(_(b"cannot specify both --web-conf and an address"))
    if opts["web_conf"]:
        ways = [*_in_web_conf(ui, repo, opts["web_conf"])]
    elif repo is None:
        raise error.InputError(
            _(b"there is no Mercurial repository here (.hg not found)"),
            hint=_(b"name one with -R, or the configuration of hgweb with --web-conf"),
        )
    else:
        ways = _of_repository(ui, repo, _given(url) if url else b"")
        if ways and (name := refusednames.in_clone(repo)):
            line = _(b"warning: git refuses to check out '%s', so clones fail") % name
            ui.warn(one_line(line))
            line = refusednames.clone_command(name, ways[0].url)
            ui.warn(one_line(_(b"(rename it; until then, git users type: %s)") % line))
    byte_opts = {name.encode(): value for name, value in opts.items()}
    with ui.formatter(b"git-clone-command", byte_opts) as fm:
        for way in ways:
            fm.startitem()
            fm.data(
                command=way.command(),
                transport=way.transport,
                url=way.url,
                bundles_url=way.bundles_url,
            )
            fm.plain(one_line(way.command()))
    return 0 if ways else 1


def _of_repository(ui: UiT, repo: RepoT, address: bytes) -> list[Way]:
    """Return the commands for one repository; ``address`` may be empty."""
    is_served = wants_serve(repo.ui)
    if address and not is_served:
        raise error.StateError(
            _(b"git clients are not served from this repository"),
            hint=_(b"set amalgam.git.serve = yes in its .hg/hgrc"),
        )
    if is_served and not address:
        address = _configured(repo)
    store = GitStore(repo, GitConfig.from_ui(repo.ui))
    is_exported = bool(store.docket().packs)
    if address:
        if not is_exported:
            ui.warn(_(b"warning: nothing is exported yet\n"))
            ui.warn(_(b"(run 'hg git::export', or the first clone has to wait)\n"))
        return [*_ways(repo, address)]
    if is_exported:
        _warn_of_others(ui, is_served)
        name = os.path.basename(store.repo.root)
        return [Way(_HERE, store.repository.path, name=name)]
    raise _unknown(is_served)


def _ways(repo: RepoT, address: bytes) -> Iterator[Way]:
    """Yield the commands for users elsewhere, the one that always works first."""
    transport = address.partition(b":")[0]
    if transport == _SSH:
        yield Way(transport, address)
        return
    base = address.rstrip(b"/") + b"/"
    plain = pages.clone_url(base)
    yield Way(transport, plain or address)
    bundles = pages.bundle_list_url(repo, base) if plain else b""
    if not bundles:
        return
    yield Way(transport, plain, bundles)
    if ServeConfig.from_ui(repo.ui).bundle_uri:
        options = (b"-c", b"transfer.bundleURI=true")
        yield Way(transport, plain, options=options)


def _given(given: bytes) -> bytes:
    """Return the address that git needs for one that Mercurial's users have."""
    url = urlutil.url(given)
    host = url.host or b""
    is_known = url.scheme in (*_WEB, _SSH) and _HOST.fullmatch(host)
    if not is_known or url.query or url.fragment:
        raise error.InputError(
            _(b"not an address that git can clone from: '%s'")
            % urlutil.hidepassword(given),
            hint=_(b"name one with http://, https:// or ssh://"),
        )
    if url.scheme != _SSH:
        return _without_password(url)
    # for hg, a path without a second slash is relative to the home directory
    path = url.path or b""
    if not path.startswith((b"/", b"~")):
        path = b"~/" + path
    user = b"%s@" % url.user if url.user else b""
    port = b":%s" % url.port if url.port else b""
    return b"ssh://%s%s%s/%s" % (user, host, port, path.lstrip(b"/"))


def _in_web_conf(ui: UiT, repo: RepoT | None, path: bytes) -> Iterator[Way]:
    """Yield the commands for ``repo``, as an hgweb with this configuration serves it.

    Without ``repo``, for all its repositories that git clients may clone.
    """
    web = hgwebdir_mod.hgwebdir(path, baseui=ui)
    web.refresh()
    served = web.repos
    if repo is not None:
        root = os.path.realpath(repo.root)
        served = [it for it in served if os.path.realpath(it[1]) == root][:1]
    if not served:
        text = _(b"hgweb with this configuration does not serve this repository: '%s'")
        if repo is None:
            text = _(b"hgweb with this configuration serves no repository: '%s'")
        raise error.InputError(
            text % path, hint=_(b"see [paths] in it, and 'hg help hgweb'")
        )
    base = _base_of(web.ui)
    if not base:
        raise error.ConfigError(
            _(b"web.baseurl is not set in '%s'") % path,
            hint=_(b"set it to the address of hgweb"),
        )
    for name, place in served:
        address = b"%s/%s" % (base.rstrip(b"/"), util.urlreq.quote(name))
        try:
            as_served = compat.open_repository(web.ui.copy(), place)
            yield from _of_repository(ui, as_served, address)
        except (error.RepoError, error.StateError, OSError) as exc:
            if repo is not None:
                raise
            line = _(b"warning: '%s' is left out: %s")
            ui.warn(one_line(line % (name, stringutil.forcebytestr(exc))))


def _configured(repo: RepoT) -> bytes:
    """Return ``web.baseurl`` of the repository's own hgrc, or nothing.

    In other files, it is the address of a server with more repositories.
    """
    source = repo.ui.configsource(b"web", b"baseurl").rpartition(b":")[0]
    own = [repo.vfs.join(name) for name in _OWN_FILES]
    return _base_of(repo.ui) if source in own else b""


def _base_of(ui: UiT) -> bytes:
    url = urlutil.url(ui.config(b"web", b"baseurl") or b"")
    if url.scheme not in _WEB or not _HOST.fullmatch(url.host or b""):
        return b""
    return _without_password(url)


def _without_password(url: urlutil.url) -> bytes:
    address: bytes = url.authinfo()[0]
    return address


def _warn_of_others(ui: UiT, is_served: bool) -> None:
    """Say why the only command is one for users of this machine."""
    if is_served:
        ui.warn(_(b"warning: the address for users of other machines is not known\n"))
        ui.warn(_(b"(add it, or --web-conf FILE; see 'hg help git::clone-command')\n"))
    else:
        ui.warn(_(b"warning: git clients of other machines are not served\n"))
        ui.warn(_(b"(set amalgam.git.serve = yes in .hg/hgrc)\n"))


def _unknown(is_served: bool) -> error.Abort:
    if is_served:
        return error.StateError(
            _(b"the address of this repository is not known"),
            hint=_(b"add it, or --web-conf FILE; see 'hg help git::clone-command'"),
        )
    return error.StateError(
        _(b"there is nothing that git could clone"),
        hint=_(b"run 'hg git::export', or set amalgam.git.serve = yes"),
    )
