"""The table of all that amalgam wraps in Mercurial, and its installer.

A row names an attribute of Mercurial, its replacement, and the reason. Nothing is
wrapped before Mercurial loads the module of the attribute, and a replacement is
imported when it is first called: every hg process loads this module, and most need
little of Mercurial. So there is no class here, and no object for each row.
``tests/test_hooks.py`` has the signatures of all attributes in the supported versions;
``docs/upstream.rst`` has patches that would remove rows.
"""

from __future__ import annotations

import functools
import gc
import importlib
import itertools
import os
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from mercurial import (
    encoding,
    error,
    extensions,
    localrepo,
    util,
    wireprotoserver,
)

from . import commands
from .configitems import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercurial.interfaces.types import RepoT, UiT


_INDEX = "the index of a changelog or manifest is mapped"
_LOOKUP = "nodes are looked up in a node map"
_EXPORT = "changes are exported"
_HTTP = "hgweb answers git clients"
_CHECK = "an error in a bundle reaches the client"
_CLONE = "hgweb names URLs that a client can reach"
_BUNDLES = "clonebundles has formats for git, and keeps replaced bundles"
_REMOTES = "git repositories are remotes"
_PARTS = "bundles have hg-git's parts"
_HGGIT = "it is as with hg-git: commits are skipped, tags are git's"
_COMMANDS = "mercurial.wireprotov1server:commands"
#: Other processes than servers load the commands, too.
_FOR_SERVERS = "mercurial.wireprotoserver"
#: As ``mercurial.hgweb`` calls them: in 7.2, hgweb_mod_inner and hgwebdir_mod_inner.
_HGWEB_MOD = "mercurial.hgweb:hgweb_mod"
_HGWEBDIR_MOD = "mercurial.hgweb:hgwebdir_mod"

_OPTIONS = {b"tag": [(b"", b"git", None, b"make a tag of git, on -r/--rev")]}
"""Options of ours, by command of Mercurial."""

_load_one = threading.Lock()

_Wraps = dict[str, tuple[tuple[str, ...], ...]]

WRAPS: _Wraps = {
    "mercurial.localrepo": (
        (
            "resolverevlogstorevfsoptions",
            "index.opening:resolve_options",
            _INDEX,
            "<= 7.1",
        ),
        ("localrepository.__init__", "index.opening:init", _INDEX),
        ("localrepository.transaction", "index.opening:transaction", _INDEX),
        ("localrepository.transaction", "gitstore.export.request:transaction", _EXPORT),
        (
            "localrepository.transaction",
            "clonebundles.formats:transaction",
            "bundles are wanted that nobody would make",
        ),
        ("localrepository.destroyed", "gitstore.export.request:destroyed", _EXPORT),
        ("localrepository.recover", "gitstore.export.request:recover", _EXPORT),
        ("localrepository.updatecaches", "index.opening:updatecaches", _INDEX),
        ("localrepository.close", "index.opening:close", _INDEX),
    ),
    "mercurial.repo.vfs_options": (
        (
            "resolve_revlog_store_vfs_options",
            "index.opening:resolve_options",
            _INDEX,
            ">= 7.2",
        ),
    ),
    "mercurial.revlog": (
        ("revlog._get_data", "index.opening:get_data", _INDEX),
        ("revlog.strip", "index.opening:strip", _INDEX),
        ("revlog._load_inner", "index.opening:load_inner", _LOOKUP),
        (
            "revlog.censorrevision",
            "gitstore.censorship:censor",
            "a censored text leaves the git store",
        ),
    ),
    "mercurial.scmutil": (
        ("shortesthexnodeidprefix", "index.opening:shortesthexnodeidprefix", _LOOKUP),
    ),
    _FOR_SERVERS: (
        ("handlewsgirequest", "serve.bundles:handle_request", "hgweb sends bundles"),
        ("handlewsgirequest", "serve.http:handle_request", _HTTP),
        ("handlewsgirequest", "serve.lfs:handle_request", "hgweb answers git-lfs"),
        ("handlewsgirequest", "serve.ids:handle_request", "hgweb translates ids"),
    ),
    _HGWEBDIR_MOD: (
        (
            "hgwebdir._runwsgi",
            "serve.http:route",
            "git users append .git to the name of a repository, and git-lfs does",
        ),
    ),
    _HGWEB_MOD: (
        (
            "requestcontext.sendtemplate",
            "serve.pages:send",
            "pages of hgweb show git ids, and how to clone",
        ),
    ),
}
"""Wraps made when Mercurial loads a module, before other extensions are set up.

By module, or ``PACKAGE:NAME`` for a module that a package has under this name. A row
is an attribute of the module, or ``MODULE:ATTRIBUTE``, where ``[KEY]`` is a key of a
dictionary; ``MODULE:FUNCTION`` in this package, which is called with it instead; the
reason; versions of Mercurial that have the attribute, if not all.
"""

WRAPS_AFTER_EXTENSIONS: _Wraps = {
    "mercurial.bundle2": (
        (
            "bundle20.setcompression",
            "changegroup.compression:choose",
            "bundles are compressed on all cores",
        ),
    ),
    "mercurial.changegroup": (
        (
            "cgpacker.generate",
            "changegroup.native:generate",
            "the core writes changegroups",
        ),
        (
            "makechangegroup",
            "changegroup.native:make",
            "changegroups are forwarded, not parsed",
        ),
        ("writechunks", "changegroup.errors:write", _CHECK),
    ),
    _FOR_SERVERS: (
        (_COMMANDS + "[getbundle].func", "changegroup.errors:getbundle", _CHECK),
        (
            _COMMANDS + "[get_cached_bundle_inline].func",
            "clonebundles.advertise:inline",
            "no bundle from before a censoring is sent",
        ),
        (
            _COMMANDS + "[clonebundles].func",
            "clonebundles.advertise:manifest",
            _CLONE,
        ),
        (
            _COMMANDS + "[clonebundles_manifest].func",
            "clonebundles.advertise:manifest",
            _CLONE,
        ),
        (
            "mercurial.wireprotov1server:_capabilities",
            "clonebundles.advertise:cinnabar_capabilities",
            "git-cinnabar finds its bundle",
        ),
    ),
    "hgext.clonebundles": (
        ("capabilities", "clonebundles.advertise:hg_capabilities", _CLONE),
        ("read_auto_gen", "clonebundles.extension:read_auto_gen", _BUNDLES),
        (
            "auto_bundle_needed_actions",
            "clonebundles.policy:needed_bundles",
            _BUNDLES,
        ),
        ("new_bundle_needed", "clonebundles.policy:is_new_needed", _BUNDLES),
        ("find_outdated_bundles", "clonebundles.policy:outdated_bundles", _BUNDLES),
        ("delete_bundle", "clonebundles.extension:delete", _BUNDLES),
        ("upload_bundle", "clonebundles.extension:upload", _BUNDLES),
        ("generate_manifest", "clonebundles.extension:manifest", _BUNDLES),
        (
            "update_ondisk_manifest",
            "clonebundles.extension:update_manifest",
            _BUNDLES,
        ),
        ("make_auto_bundler", "clonebundles.extension:on_change", _BUNDLES),
        ("reposetup", "hooks:set_up_bundles", _BUNDLES),
        (
            "RequestedBundle.generate_bundle",
            "clonebundles.extension:generate",
            _BUNDLES,
        ),
        (
            "cmdtable[admin::clone-bundles-refresh]",
            "clonebundles.extension:refresh",
            _BUNDLES,
        ),
        (
            "cmdtable[admin::clone-bundles-clear]",
            "clonebundles.extension:clear",
            _BUNDLES,
        ),
    ),
}
"""Wrapped after other extensions, which may replace the same functions."""

WRAPS_FOR_REMOTES: _Wraps = {
    "mercurial.hg": (("remoteui", "gitpeer.wraps:remote_ui", _REMOTES, "<= 7.1"),),
    "mercurial.repo.factory": (
        ("_remoteui", "gitpeer.wraps:remote_ui", _REMOTES, ">= 7.2"),
    ),
    "mercurial.utils.urlutil": (
        ("hasscheme", "gitpeer.addresses:has_scheme", _REMOTES),
        ("path._isvalidlocalpath", "gitpeer.addresses:is_valid", _REMOTES),
    ),
    "mercurial.repoview": (
        (
            "pinnedrevs",
            "gitpeer.names:pinned",
            "names of git keep obsolete changesets visible, as with hg-git",
        ),
    ),
    "mercurial.exchange": (
        (
            "mercurial.bundle2:getrepocaps",
            "gitpeer.bundleparts:capabilities",
            _PARTS,
            "<= 7.1",
        ),
        (
            "mercurial.exchanges.bundle_caps:get_repo_caps",
            "gitpeer.bundleparts:capabilities",
            _PARTS,
            ">= 7.2",
        ),
        ("pull", "gitpeer.wraps:pull", _REMOTES),
        ("push", "gitpeer.wraps:push", _REMOTES),
    ),
    "mercurial.bundle2": (("_addpartsfromopts", "gitpeer.bundleparts:write", _PARTS),),
    "mercurial.bundlerepo": (("getremotechanges", "gitpeer.wraps:incoming", _REMOTES),),
    "mercurial.discovery": (("findcommonincoming", "gitpeer.wraps:common", _REMOTES),),
    "mercurial.commands": (
        ("table[pull]", "gitpeer.wraps:command", _REMOTES),
        ("table[push]", "gitpeer.wraps:command", _REMOTES),
        ("table[clone]", "gitpeer.wraps:clone_command", _REMOTES),
        ("table[annotate|blame]", "commands.hggit:command", _HGGIT),
        ("table[tag]", "commands.hggit:command", _HGGIT),
    ),
}
"""Wrapped like those, unless hg-git is loaded, which has the same remotes."""


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


def _add_predicates(revset: Any) -> None:
    if hasattr(revset, "loadpredicate"):  # 7.1 and older
        revset.loadpredicate(None, None, commands.revsetpredicate)


def _add_keyword(templatekw: Any) -> None:
    if hasattr(templatekw, "loadkeyword"):
        templatekw.loadkeyword(None, None, commands.templatekeyword)


def _add_both(tables: Any) -> None:
    tables.load_revset_predicates(None, None, commands.revsetpredicate)
    tables.load_template_keywords(None, None, commands.templatekeyword)


def _requests_are_awaited(_hgweb_mod: Any) -> None:
    # not by the first request: several threads answer requests
    loading = _loading()
    loading.load(localrepo, wireprotoserver)
    loading.load_everything()


def _add_bundle_parts(_exchange: Any) -> None:
    _replacement("gitpeer.bundleparts:register")()


def _add_git_peers(factory: Any) -> None:
    """Let Mercurial make peers for git URLs, scp-like names, and git repositories."""
    if hasattr(factory, "repo_factory"):
        return  # the same tables, in another module
    make = _replacement("gitpeer.wraps:make_peer")
    make_of_both = _replacement("gitpeer.wraps:make_peer_of_both")
    find = _replacement("gitpeer.wraps:instance")
    is_scp = _replacement("gitpeer.addresses:is_scp")
    peers = factory.peer_schemes
    for scheme in (b"git", b"git+ssh", b"git+http", b"git+https", b"git+file"):
        peers[scheme] = SimpleNamespace(make_peer=make)
    for scheme in (b"http", b"https", b"ssh"):
        both = functools.partial(make_of_both, peers[scheme])
        peers[scheme] = SimpleNamespace(make_peer=both)
    local = factory.repo_schemes[b"file"]

    def instance(ui: UiT, path: bytes, *args: Any, **kwargs: Any) -> Any:
        try:
            return local.instance(ui, path, *args, **kwargs)
        except error.RepoError as exc:
            return find(exc, ui, path)

    def is_local(path: bytes) -> bool:
        is_remote = b"@" in path and b":" in path and is_scp(path)
        return not is_remote and local.islocal(path)

    factory.repo_schemes[b"file"] = SimpleNamespace(instance=instance, islocal=is_local)


#: Additions to tables of Mercurial, made when it loads a module.
ADDITIONS: dict[str, Callable[[Any], None]] = {
    "mercurial.cmdutil": _add_summary,
    "mercurial.help": _add_help,
    _HGWEB_MOD: _add_files_of_interest,
    "mercurial.hgweb.server": _add_options,
}
#: The same, after other extensions.
ADDITIONS_AFTER_EXTENSIONS: dict[str, Callable[[Any], None]] = {
    _FOR_SERVERS: _add_cinnabarclone,
    _HGWEB_MOD: _requests_are_awaited,
    _HGWEBDIR_MOD: _requests_are_awaited,
    # instead of attributes of the extension, for which older ones load these modules
    "mercurial.revset": _add_predicates,
    "mercurial.templatekw": _add_keyword,
    "mercurial.tables": _add_both,
}
#: The same, unless hg-git is loaded.
ADDITIONS_FOR_REMOTES: dict[str, Callable[[Any], None]] = {
    "mercurial.hg": _add_git_peers,
    "mercurial.repo.factory": _add_git_peers,
    "mercurial.exchange": _add_bundle_parts,
}


def uisetup(_ui: UiT) -> None:
    """Add commands, and wrap functions of Mercurial."""
    commands.add_commands()
    _install(WRAPS, ADDITIONS)


def extsetup(ui: UiT) -> None:
    """Wrap functions of extensions, and functions that extensions replace."""
    try:
        hggit = extensions.find(b"hggit")
    except KeyError:
        _install(WRAPS_FOR_REMOTES, ADDITIONS_FOR_REMOTES)
    else:
        # these say so
        _install({"mercurial.commands": WRAPS_FOR_REMOTES["mercurial.commands"]}, {})
        from .commands import ids

        tables = {
            "revsetpredicate": commands.revsetpredicate,
            "templatekeyword": commands.templatekeyword,
        }
        ids.leave_names_to(ui, hggit, tables)
        for name in getattr(hggit, "cmdtable", {}):
            commands.cmdtable.pop(name, None)
    _install(WRAPS_AFTER_EXTENSIONS, ADDITIONS_AFTER_EXTENSIONS)


def _install(wraps: _Wraps, additions: dict[str, Callable[[Any], None]]) -> None:
    for key in {**wraps, **additions}:
        name, _colon, attribute = key.partition(":")
        try:
            # import_module() would load a lazy module that is there
            module = sys.modules.get(name) or importlib.import_module(name)
        except ImportError:
            continue  # a module of other versions
        call = functools.partial(_change, wraps.get(key, ()), additions.get(key))
        if attribute:
            call = functools.partial(_change_attribute, attribute, call)
        when_loaded(module, call)


def _change_attribute(name: str, change: Callable[[Any], None], package: Any) -> None:
    when_loaded(getattr(package, name), change)


def _change(
    rows: Iterable[tuple[str, ...]], add: Callable[[Any], None] | None, module: Any
) -> None:
    if add is not None:
        add(module)
    for target, by, _why, *versions in rows:
        name, path = "", target
        if target.startswith("mercurial."):
            name, _colon, path = target.partition(":")
        try:
            of = importlib.import_module(name) if name else module
        except ImportError:
            continue  # a module of other versions
        container, last = resolved(of, path)
        if isinstance(container, dict):
            # extensions.wrapcommand would search the table, which takes longer
            container[last] = commands.CommandRow(_command, container[last], last, by)
        elif hasattr(container, last) or not versions:
            extensions.wrapfunction(container, last, _replacement(by))


def _command(row: tuple[Any, ...], name: bytes, by: str) -> tuple[Any, ...]:
    """Return the row of a command that ``by`` replaces."""
    original, options, *rest = row
    wrapper = functools.partial(_replacement(by), util.checksignature(original))
    functools.update_wrapper(wrapper, original)
    # or Mercurial would take it for an alias
    vars(wrapper)["_origfunc"] = original
    return (wrapper, [*options, *_OPTIONS.get(name, ())], *rest)


def when_loaded(module: ModuleType, call: Callable[[ModuleType], None]) -> None:
    """Call ``call`` with ``module`` when that has been loaded, at once if it is.

    Otherwise, call it when the module is first used.
    """
    if type(module) is ModuleType:
        call(module)
        return
    # to ask the module itself would load it; importlib.util has put the loader there
    spec = object.__getattribute__(module, "__spec__")
    loader = spec.loader

    def load_and_call(module: ModuleType) -> None:
        spec.loader = loader
        loader.exec_module(module)
        call(module)

    spec.loader = SimpleNamespace(exec_module=load_and_call)


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


def _loading() -> Any:
    """Return ``loading``, whole even if several threads are the first to ask.

    The lock is released at once: ``loading.one_at_a_time`` may be held by one of them.
    """
    with _load_one:
        from . import loading

        loading.load  # noqa: B018
    return loading


def _replacement(by: str) -> Callable[..., Any]:
    """Return a function that calls ``by``, imported at the first call."""
    module_name, _colon, name = by.partition(":")
    found: list[Callable[..., Any]] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not found:
            loading = _loading()
            with loading.one_at_a_time:
                module = importlib.import_module(f"{__package__}.{module_name}")
                loading.load(module)
            found.append(getattr(module, name))
        return found[0](*args, **kwargs)

    return call


def debuginstall(ui: UiT, fm: Any) -> int:
    """Take part in ``hg debuginstall``; return the number of problems."""
    from .commands import installation

    return installation.check(ui, fm)


_usual_garbage = gc.get_threshold()
_repositories = itertools.count()


def collect_garbage_less_often() -> None:
    """Save two fifths of the cost of amalgam's start, until repositories come and go.

    At its start hg makes objects that stay, and Python looks for garbage among them
    after each 700. Whoever has turned that off, or looks less often, decides.
    """
    if 0 < _usual_garbage[0] < 50_000:
        gc.set_threshold(50_000)


def reposetup(_ui: UiT, repo: RepoT) -> None:
    """Let processes that a repository starts have its configuration.

    And changesets the names that git remotes have for them. Their files may come from
    anybody, so no update makes a git repository of them.
    """
    if next(_repositories) == 1:  # a server, or a larger command
        gc.set_threshold(*_usual_garbage)
    if b"AMALGAM_CONFIG" in encoding.environ:
        from . import background

        background.configure(repo.ui)
    # none of a peer
    path = getattr(repo, "sharedpath", None)
    if not path:
        return
    has_remotes = os.path.exists(path + b"/amalgam/fetched")
    has_hggit = os.path.exists(path + b"/git-mapfile")
    is_exported = os.path.exists(path + b"/amalgam/map/hggit.docket")
    if has_remotes or has_hggit or is_exported:
        _replacement("hggit.dialect:choose")(repo)
        _replacement("gitpeer.names:add_namespaces")(repo)
        _replacement("gitpeer.checkout:guard")(repo)


def set_up_bundles(orig: Callable[[UiT, RepoT], None], ui: UiT, repo: RepoT) -> None:
    """Renew bundles for git with those of Mercurial, and publish them."""
    orig(ui, repo)
    if not repo.local():
        return
    renew = _replacement("clonebundles.extension:transaction")

    class bundledrepo(repo.__class__):  # noqa: N801
        """Renews bundles for git together with Mercurial's."""

        def transaction(self, *args: Any, **kwargs: Any) -> Any:
            return renew(super().transaction, self, *args, **kwargs)

    repo._wlockfreeprefix.add(b"cinnabar.manifest")
    repo.__class__ = bundledrepo
