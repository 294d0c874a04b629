"""Where Mercurial calls amalgam, besides commands: what is wrapped, and by whom.

All of hg pays for what is loaded, and most commands need little of Mercurial: no
repository, no server. So nothing is wrapped before Mercurial loads the module that it
is in, and only then what takes its place is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hgext import clonebundles
from mercurial import (
    bundle2,
    changegroup,
    cmdutil,
    error,
    extensions,
    help as helpmod,
    hg,
    hgweb,
    localrepo,
    revlog,
    wireprotoserver,
)

from . import commands
from .config import DIALECTS, wants_export_on_change
from .loading import load, load_everything, one_at_a_time, when_loaded

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT, UiT


def uisetup(_ui: UiT) -> None:
    """Take part in how repositories are opened, changed and served."""

    def index_is_opened() -> None:
        from .index import hooks

        hooks.install()
        hooks.install_lookup()

    def request_is_answered() -> None:
        from .serve import bundles, http, ids as idroutes, lfs as lfsroutes

        for module in (bundles, http, lfsroutes, idroutes):
            _wrap(wireprotoserver, "handlewsgirequest", module.handle_request)

    def repository_is_found() -> None:
        from .serve import lfs

        _wrap(hgweb.hgwebdir_mod.hgwebdir, "_runwsgi", lfs.route)

    def page_is_made() -> None:
        from .serve import pages

        _wrap(hgweb.hgweb_mod.requestcontext, "sendtemplate", pages.send)
        # an export changes pages, which browsers keep until one of these changes
        hg.foi.extend(("sharedpath", b"amalgam/map/%s.docket" % it) for it in DIALECTS)

    def help_is_read() -> None:
        from .commands import configtopic

        configtopic.install()

    def commands_are_known() -> None:
        cmdutil.summaryhooks.add(b"amalgam", _summary)

    when_loaded(cmdutil, commands_are_known)
    when_loaded(helpmod, help_is_read)
    when_loaded(hgweb.hgweb_mod, page_is_made)
    when_loaded(hgweb.hgwebdir_mod, repository_is_found)
    when_loaded(localrepo, index_is_opened)
    when_loaded(revlog, lambda: _wrap(revlog.revlog, "censorrevision", _censor))
    when_loaded(wireprotoserver, request_is_answered)


def extsetup(ui: UiT) -> None:
    """Take part in what is of extensions, or what they may change, too."""

    def protocol_is_spoken() -> None:
        from .changegroup import errors
        from .clonebundles import advertise

        advertise.install()
        errors.tell_clients()

    def bundles_are_generated() -> None:
        from .clonebundles import extension

        extension.install()

    def changegroups_are_made() -> None:
        from .changegroup import errors, native

        native.install()
        errors.remove_cut_files()

    when_loaded(bundle2, lambda: _wrap(bundle2.bundle20, "setcompression", _compress))
    when_loaded(changegroup, changegroups_are_made)
    when_loaded(wireprotoserver, protocol_is_spoken)
    when_loaded(clonebundles, bundles_are_generated)

    def requests_are_awaited() -> None:
        # not by the first request: several threads answer requests
        load(localrepo, wireprotoserver)
        load_everything()

    for server in (hgweb.hgweb_mod, hgweb.hgwebdir_mod):
        when_loaded(server, requests_are_awaited)
    try:
        hggit = extensions.find(b"hggit")
    except KeyError:
        return
    from .commands import ids

    tables = {
        "revsetpredicate": commands.revsetpredicate,
        "templatekeyword": commands.templatekeyword,
    }
    ids.leave_names_to(ui, hggit, tables)


def debuginstall(ui: UiT, fm: Any) -> int:
    """Take part in ``hg debuginstall``; return the number of problems."""
    from .commands import installation

    return installation.check(ui, fm)


def reposetup(ui: UiT, repo: RepoT) -> None:
    """Take part in the transactions of a repository."""
    if repo.local() and wants_export_on_change(_of_source(ui, repo)):
        with one_at_a_time:
            from .gitstore.export import request

            load(request)
        request.install(repo)
    if ui.configlist(b"clone-bundles", b"git.formats"):
        with one_at_a_time:
            from .clonebundles import extension

            load(extension)
        extension.warn_without_extension(ui, repo)


def _of_source(ui: UiT, repo: RepoT) -> UiT:
    """Return the configuration that says what becomes of the git store."""
    if not repo.shared():
        return ui
    with one_at_a_time:
        from .gitstore import source

        load(source)
    try:
        return source.configuration_of_source(repo)
    except error.ConfigError:
        base: UiT = repo.baseui  # commands of the source name the mistake
        return base


def _summary(ui: UiT, repo: RepoT) -> None:
    from .commands import summary

    summary.show_summary(ui, repo)


def _censor(orig: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    from .gitstore import censorship

    return censorship.censor(orig, *args, **kwargs)


def _compress(orig: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    with one_at_a_time:
        from .changegroup import compression

        load(compression)
    compression.choose(orig, *args, **kwargs)


def _wrap(container: Any, name: str, wrapper: Callable[..., Any]) -> None:
    extensions.wrapfunction(container, name, wrapper)
