"""The table of all that amalgam wraps in Mercurial, and its installer.

A row names an attribute of Mercurial, its replacement, and the reason. Nothing is
wrapped before Mercurial loads the module of the attribute, and a replacement is
imported when it is first called: every hg process loads this module, and most need
little of Mercurial. ``tests/test_hooks.py`` has the signatures of all attributes in the
supported versions; ``docs/upstream.rst`` has patches that would remove rows.

Repositories get subclasses in ``reposetup``, in the way of Mercurial's own extensions:
``gitstore/export/request.py`` and ``clonebundles/extension.py``.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any

from mercurial import encoding, error, extensions, hgweb, localrepo, wireprotoserver

from . import commands
from .config import DIALECTS, wants_export_on_change
from .loading import load, load_everything, one_at_a_time, when_loaded
from .records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercurial.interfaces.types import RepoT, UiT


class Wrap(Record):
    """A function of Mercurial, and the function that is called with it instead."""

    target: str
    """``MODULE:ATTRIBUTE``; ``[KEY]`` in it is a key of a dictionary."""
    by: str
    """``MODULE:FUNCTION`` in this package."""
    why: str
    hg: str = ""
    """Versions that have the attribute, if not all."""
    when: str = ""
    """The module whose load wraps it, if not its own."""


_INDEX = "the index of a changelog or manifest is mapped"
_LOOKUP = "nodes are looked up in a node map"
_HTTP = "hgweb answers git clients"
_CHECK = "an error in a bundle reaches the client"
_CLONE = "hgweb names URLs that a client can reach"
_BUNDLES = "clonebundles has formats for git, and keeps replaced bundles"
_REPOSITORY = "mercurial.localrepo:localrepository."
_SERVER = "mercurial.wireprotoserver:handlewsgirequest"
_COMMANDS = "mercurial.wireprotov1server:commands"
#: Other processes than servers load the commands, too.
_FOR_SERVERS = "mercurial.wireprotoserver"
_EXTENSION = "hgext.clonebundles:"
# Names of the modules that hgweb uses: in 7.2, hgweb_mod_inner and hgwebdir_mod_inner.
# __getattribute__ does not load them.
_HGWEB_MOD, _HGWEBDIR_MOD = (
    object.__getattribute__(module, "__name__")
    for module in (hgweb.hgweb_mod, hgweb.hgwebdir_mod)
)

WRAPS = (
    Wrap(
        "mercurial.localrepo:resolverevlogstorevfsoptions",
        "index.opening:resolve_options",
        _INDEX,
        hg="<= 7.1",
    ),
    Wrap(
        "mercurial.repo.vfs_options:resolve_revlog_store_vfs_options",
        "index.opening:resolve_options",
        _INDEX,
        hg=">= 7.2",
    ),
    Wrap(_REPOSITORY + "__init__", "index.opening:init", _INDEX),
    Wrap(_REPOSITORY + "transaction", "index.opening:transaction", _INDEX),
    Wrap(_REPOSITORY + "updatecaches", "index.opening:updatecaches", _INDEX),
    Wrap(_REPOSITORY + "close", "index.opening:close", _INDEX),
    Wrap("mercurial.revlog:revlog._get_data", "index.opening:get_data", _INDEX),
    Wrap("mercurial.revlog:revlog.strip", "index.opening:strip", _INDEX),
    Wrap("mercurial.revlog:revlog._load_inner", "index.opening:load_inner", _LOOKUP),
    Wrap(
        "mercurial.scmutil:shortesthexnodeidprefix",
        "index.opening:shortesthexnodeidprefix",
        _LOOKUP,
    ),
    Wrap(
        "mercurial.revlog:revlog.censorrevision",
        "gitstore.censorship:censor",
        "a censored text leaves the git store",
    ),
    Wrap(_SERVER, "serve.bundles:handle_request", "hgweb sends bundles"),
    Wrap(_SERVER, "serve.http:handle_request", _HTTP),
    Wrap(_SERVER, "serve.lfs:handle_request", "hgweb answers git-lfs"),
    Wrap(_SERVER, "serve.ids:handle_request", "hgweb translates ids"),
    Wrap(
        _HGWEBDIR_MOD + ":hgwebdir._runwsgi",
        "serve.http:route",
        "git users append .git to the name of a repository, and git-lfs does",
    ),
    Wrap(
        _HGWEB_MOD + ":requestcontext.sendtemplate",
        "serve.pages:send",
        "pages of hgweb show git ids, and how to clone",
    ),
)
"""Wrapped before other extensions are set up."""

WRAPS_AFTER_EXTENSIONS = (
    Wrap(
        "mercurial.bundle2:bundle20.setcompression",
        "changegroup.compression:choose",
        "bundles are compressed on all cores",
    ),
    Wrap(
        "mercurial.changegroup:cgpacker.generate",
        "changegroup.native:generate",
        "the core writes changegroups",
    ),
    Wrap(
        "mercurial.changegroup:makechangegroup",
        "changegroup.native:make",
        "changegroups are forwarded, not parsed",
    ),
    Wrap("mercurial.changegroup:writechunks", "changegroup.errors:write", _CHECK),
    Wrap(
        _COMMANDS + "[getbundle].func",
        "changegroup.errors:getbundle",
        _CHECK,
        when=_FOR_SERVERS,
    ),
    Wrap(
        _COMMANDS + "[get_cached_bundle_inline].func",
        "clonebundles.advertise:inline",
        "no bundle from before a censoring is sent",
        when=_FOR_SERVERS,
    ),
    Wrap(
        _COMMANDS + "[clonebundles].func",
        "clonebundles.advertise:manifest",
        _CLONE,
        when=_FOR_SERVERS,
    ),
    Wrap(
        _COMMANDS + "[clonebundles_manifest].func",
        "clonebundles.advertise:manifest",
        _CLONE,
        when=_FOR_SERVERS,
    ),
    Wrap(
        "mercurial.wireprotov1server:_capabilities",
        "clonebundles.advertise:cinnabar_capabilities",
        "git-cinnabar finds its bundle",
        when=_FOR_SERVERS,
    ),
    Wrap(_EXTENSION + "capabilities", "clonebundles.advertise:hg_capabilities", _CLONE),
    Wrap(
        _EXTENSION + "read_auto_gen", "clonebundles.extension:read_auto_gen", _BUNDLES
    ),
    Wrap(
        _EXTENSION + "auto_bundle_needed_actions",
        "clonebundles.policy:needed_bundles",
        _BUNDLES,
    ),
    Wrap(
        _EXTENSION + "new_bundle_needed", "clonebundles.policy:is_new_needed", _BUNDLES
    ),
    Wrap(
        _EXTENSION + "find_outdated_bundles",
        "clonebundles.policy:outdated_bundles",
        _BUNDLES,
    ),
    Wrap(_EXTENSION + "delete_bundle", "clonebundles.extension:delete", _BUNDLES),
    Wrap(_EXTENSION + "upload_bundle", "clonebundles.extension:upload", _BUNDLES),
    Wrap(_EXTENSION + "generate_manifest", "clonebundles.extension:manifest", _BUNDLES),
    Wrap(
        _EXTENSION + "update_ondisk_manifest",
        "clonebundles.extension:update_manifest",
        _BUNDLES,
    ),
    Wrap(
        _EXTENSION + "make_auto_bundler", "clonebundles.extension:on_change", _BUNDLES
    ),
    Wrap(_EXTENSION + "reposetup", "clonebundles.extension:reposetup", _BUNDLES),
    Wrap(
        _EXTENSION + "RequestedBundle.generate_bundle",
        "clonebundles.extension:generate",
        _BUNDLES,
    ),
    Wrap(
        _EXTENSION + "cmdtable[admin::clone-bundles-refresh]",
        "clonebundles.extension:refresh",
        _BUNDLES,
    ),
    Wrap(
        _EXTENSION + "cmdtable[admin::clone-bundles-clear]",
        "clonebundles.extension:clear",
        _BUNDLES,
    ),
)
"""Wrapped after other extensions, which may replace the same functions."""


def _add_summary(cmdutil: Any) -> None:
    cmdutil.summaryhooks.add(b"amalgam", _replacement("commands.summary:show_summary"))


def _add_help(helpmod: Any) -> None:
    with_section = _replacement("commands.configtopic:with_section")
    helpmod.addtopichook(b"config", with_section)
    # pages name it to users who have not enabled the extension
    _replacement("perf:add_topic")(helpmod)


def _add_files_of_interest(_hgweb_mod: Any) -> None:
    """Let hgweb read a repository again after an export, which changes pages."""
    from mercurial import hg

    hg.foi.extend(("sharedpath", b"amalgam/map/%s.docket" % it) for it in DIALECTS)


def _add_options(server: Any) -> None:
    call = _replacement("serve.http:answer_options")
    server._httprequesthandler.do_OPTIONS = call


def _add_cinnabarclone(_wireprotoserver: Any) -> None:
    from .clonebundles import advertise

    advertise.register_cinnabarclone()


#: Additions to tables of Mercurial, made when it loads a module.
ADDITIONS = (
    ("mercurial.cmdutil", _add_summary),
    ("mercurial.help", _add_help),
    (_HGWEB_MOD, _add_files_of_interest),
    ("mercurial.hgweb.server", _add_options),
)
#: The same, after other extensions.
ADDITIONS_AFTER_EXTENSIONS = ((_FOR_SERVERS, _add_cinnabarclone),)


def uisetup(_ui: UiT) -> None:
    """Wrap functions of Mercurial."""
    _install(WRAPS, ADDITIONS)


def extsetup(ui: UiT) -> None:
    """Wrap functions of extensions, and functions that extensions replace."""
    _install(WRAPS_AFTER_EXTENSIONS, ADDITIONS_AFTER_EXTENSIONS)

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


def _install(
    wraps: Iterable[Wrap], additions: Iterable[tuple[str, Callable[[Any], None]]]
) -> None:
    by_module: dict[str, list[Callable[[Any], None]]] = {}
    for name, add in additions:
        by_module.setdefault(name, []).append(add)
    for wrap in wraps:
        name = wrap.when or wrap.target.partition(":")[0]
        by_module.setdefault(name, []).append(functools.partial(_wrap, wrap))
    for name, calls in by_module.items():
        try:
            # import_module() would load a lazy module that is there
            module = sys.modules.get(name) or importlib.import_module(name)
        except ImportError:
            continue  # a module of other versions
        when_loaded(module, functools.partial(_call, calls, module))


def _call(calls: Iterable[Callable[[Any], None]], module: Any) -> None:
    for call in calls:
        call(module)


def _wrap(wrap: Wrap, _module: Any) -> None:
    name, _colon, path = wrap.target.partition(":")
    container, last = resolved(importlib.import_module(name), path)
    if isinstance(container, dict):
        extensions.wrapcommand(container, last, _replacement(wrap.by))
    elif hasattr(container, last) or not wrap.hg:
        extensions.wrapfunction(container, last, _replacement(wrap.by))


def resolved(module: Any, path: str) -> tuple[Any, Any]:
    """Return the container of the attribute ``path``, and its name or key there."""
    *steps, last = path.replace("].", "]/").replace(".", "/").split("/")
    for step in steps:
        module = _step(module, step)
    name, bracket, key = last.partition("[")
    if bracket:
        return getattr(module, name), key.rstrip("]").encode()
    return module, name


def _step(container: Any, step: str) -> Any:
    name, bracket, key = step.partition("[")
    found = getattr(container, name)
    return found[key.rstrip("]").encode()] if bracket else found


def _replacement(by: str) -> Callable[..., Any]:
    """Return a function that calls ``by``, imported at the first call."""
    module_name, _colon, name = by.partition(":")
    found: list[Callable[..., Any]] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not found:
            with one_at_a_time:
                module = importlib.import_module(f"{__package__}.{module_name}")
                load(module)
            found.append(getattr(module, name))
        return found[0](*args, **kwargs)

    return call


def debuginstall(ui: UiT, fm: Any) -> int:
    """Take part in ``hg debuginstall``; return the number of problems."""
    from .commands import installation

    return installation.check(ui, fm)


def reposetup(ui: UiT, repo: RepoT) -> None:
    """Take part in the transactions of a repository."""
    if b"AMALGAM_CONFIG" in encoding.environ:
        from . import background

        background.configure(repo.ui)
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
    """Return the configuration of the repository that owns the git store."""
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
