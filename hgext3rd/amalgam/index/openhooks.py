"""Hooks that make Mercurial open indexes as the configuration says.

Wraps the function that resolves the options of a store, ``revlog._get_data``, which
reads the bytes of an index, and the functions that change the history. After a change,
``renewal`` updates the snapshots.

If one repository enables amalgam, the extension is loaded for the whole process, and
hgweb serves many repositories. So a store gets our option only if its own repository
enables amalgam. Stores without the option are left to Mercurial.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any

from mercurial import error, extensions, localrepo, revlog
from mercurial.revlogutils import constants

from .. import compat
from ..config import IndexConfig
from ..loading import load, one_at_a_time
from ..records import Record
from . import decision, indexfile

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT, TransactionT, UiT, VfsT

    from ..trust import Trust
    from .buffer import Expected
    from .decision import Decision
    from .opening import Site
    from .snapshot import Snapshot
    from .snapshotdocket import FileStat

_OPTION = b"amalgam-index"


class Opened(Record):
    """How the index of a revlog got into memory."""

    decision: Decision
    """Whether it was mapped, and why."""
    snapshot: Snapshot | None
    """What its first bytes are mapped from; ``None`` if all of it was read."""
    data: Any
    """All of it: a read-only buffer, which owns its memory."""
    expect: Callable[[Expected, int, int], None]
    """Tells the kernel what of it is about to be touched, from one byte to another."""
    handle: Any
    """``amalgam_mapped *``, if it is mapped; else ``None``."""


# by revlog: each lives as long as its mapping
_opened: weakref.WeakKeyDictionary[Any, Opened] = weakref.WeakKeyDictionary()


class _Switch:
    """The option of a store: the configuration, and decisions that are not yet logged.

    It refers to neither store nor indexes, which are freed when they are dropped.
    """

    def __init__(self, config: IndexConfig, ui: UiT) -> None:
        self.config = config
        self.ui = ui
        # those of store and .hg, not known until the repository object is made
        self.paths: tuple[bytes, bytes] | None = None
        self._site: Site | None = None
        # Indexes as the running transaction found them. It only appends to them, so
        # that what was their beginning then still is. Empty if that is not so.
        self.before: dict[bytes, FileStat] = {}
        self.unlogged: dict[bytes, Decision] = {}

    @property
    def site(self) -> Site | None:
        """Where snapshots are, if that is known."""
        if self._site is None and self.paths is not None:
            with one_at_a_time:
                from . import opening

                load(opening)
            with contextlib.suppress(OSError):  # no store, and nothing to map
                self._site = opening.Site.of(*self.paths, self.config, _follow, self.ui)
        return self._site

    def log(self) -> None:
        """Log what was decided since the last call.

        A logger may ask the repository for its changelog, as that of blackbox does.
        While that is being opened, it would be opened a second time.
        """
        unlogged, self.unlogged = self.unlogged, {}
        for name, decided in unlogged.items():
            self.ui.log(b"amalgam", b"%s: %s\n", name, decided.explain())


def install() -> None:
    """Wrap what Mercurial opens and changes indexes with."""
    repository = localrepo.localrepository
    for container, name, wrapper in (
        (*compat.revlog_options_resolver(), _resolve_options),
        (repository, "__init__", _init),
        (revlog.revlog, "_get_data", _get_data),
        (repository, "transaction", _transaction),
        (revlog.revlog, "strip", _strip),
        (repository, "updatecaches", _updatecaches),
        (repository, "close", _close),
    ):
        extensions.wrapfunction(container, name, wrapper)


def opened(revlog: Any) -> Opened | None:
    """Return how the index of ``revlog`` was opened.

    ``None`` if that was left to Mercurial: the repository does not enable amalgam, or
    it is a filelog.
    """
    return _opened.get(revlog)


def lendable(revlog: Any) -> Any:
    """Return the ``amalgam_mapped *`` of an index that the core can use, if any."""
    found = opened(revlog)
    return found.handle if found is not None and is_plain(revlog) else None


def is_plain(revlog: Any) -> bool:
    """Tell whether entries are of version 1, that is, whether no docket names them."""
    return getattr(revlog, "_docket", None) is None


def trust(opener: VfsT) -> Trust | None:
    """Return what may be done with files of the store that ``opener`` is of.

    ``None`` if that is not known: the repository object is not made yet.
    """
    switch = opener.options.get(_OPTION)
    site = switch and switch.site
    return site and site.trust


def open_indexes(repo: RepoT) -> list[Opened]:
    """Return how the indexes of ``repo`` were opened, opening them if need be.

    Changelog and manifest, then the tree manifests that are already open. Nothing if
    the configuration of ``repo`` does not enable amalgam.
    """
    repo = repo.unfiltered()
    changelog, manifest = repo.changelog, repo.manifestlog.getstorage(b"")
    trees = [log for name, log in sorted(manifest._dirlogcache.items()) if name]
    revlogs = [storage.get_revlog() for storage in (changelog, manifest, *trees)]
    _log(repo)
    found = map(opened, revlogs)
    return [how for how in found if how is not None]


def decisions(repo: RepoT) -> list[Decision]:
    """Return what was decided for the indexes of ``repo``, as ``open_indexes``."""
    return [how.decision for how in open_indexes(repo)]


def _resolve_options(
    orig: Callable[..., dict[bytes, Any]], ui: UiT, *args: Any, **kwargs: Any
) -> dict[bytes, Any]:
    """Let our configuration say from which size on indexes are mapped."""
    options = orig(ui, *args, **kwargs)
    if enabled(ui):
        data_config = options[b"data-config"]
        config = IndexConfig.from_ui(ui, data_config.mmap_index_threshold)
        data_config.mmap_index_threshold = config.threshold_bytes
        options[_OPTION] = _Switch(config, ui)
    return options


def _init(orig: Callable[..., None], repo: RepoT, *args: Any, **kwargs: Any) -> None:
    """Let the store know where its snapshots are, before anybody opens an index."""
    orig(repo, *args, **kwargs)
    switch = _switch(repo)
    if switch is not None:
        switch.paths = repo.store.path, repo.sharedpath


def _get_data(
    orig: Callable[..., Any],
    self: Any,
    filepath: bytes,
    mmap_threshold: int | None,
    size: int | None = None,
) -> Any:
    """Return the bytes of an index, no more than ``size``, mapped or read."""
    switch = self.opener.options.get(_OPTION)
    if switch is None:
        return orig(self, filepath, mmap_threshold, size)
    if self.target[0] != constants.KIND_CHANGELOG:
        switch.log()
    if not self.data_config.mmap_large_index:  # a filelog
        return orig(self, filepath, mmap_threshold, size)

    load(decision, indexfile)
    data, snapshot, handle, detail = None, None, None, b""
    expect = _expect_nothing
    with indexfile.opened(self.opener, filepath, size) as seen:
        reason = seen.reason(switch.config, lambda: switch.site)
        if reason is decision.Reason.LARGE_ENOUGH and switch.site is not None:
            from . import opening

            in_transaction = functools.partial(self.opener.exists, b"journal")
            try:
                mapped, snapshot = switch.site.open(seen.file, in_transaction)
                data, expect, handle = mapped
            except opening.Unavailable as exc:
                reason, detail = exc.reason, exc.detail
    if data is None:
        data = orig(self, filepath, None, size)

    decided = decision.Decision(
        name=self.display_id,
        path=self.opener.join(filepath),
        size_bytes=seen.size_bytes or 0,
        reason=reason,
        threshold_bytes=switch.config.threshold_bytes,
        item=switch.config.item,
        detail=detail,
    )
    _opened[self] = Opened(decided, snapshot, data, expect, handle)
    if not seen.docket:
        switch.unlogged[decided.name] = decided
    return data


def _transaction(
    orig: Callable[..., TransactionT], repo: RepoT, *args: Any, **kwargs: Any
) -> TransactionT:
    """Note the state of indexes before a transaction appends to them."""
    switch = _switch(repo)
    if switch is not None and repo.currenttransaction() is None:
        with one_at_a_time:
            from . import renewal

            load(renewal)
        switch.before = renewal.states(repo)
    return orig(repo, *args, **kwargs)


def _strip(orig: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    """Know that an index does not only grow."""
    switch = self.opener.options.get(_OPTION)
    if switch is not None:
        switch.before = {}
    orig(self, *args, **kwargs)


def _updatecaches(
    orig: Callable[..., None],
    repo: RepoT,
    tr: TransactionT | None = None,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Renew snapshots after each change of the history, and when somebody asks.

    That is the end of a transaction, of a strip, of a rollback.
    """
    orig(repo, tr, *args, **kwargs)
    switch = _switch(repo)
    if switch is None or switch.site is None:
        return
    before, switch.before = switch.before, {}
    if tr is None:
        before = {}
    elif tr.hookargs.get(b"source") == b"strip":
        return  # comes back without a transaction
    with one_at_a_time:
        from . import renewal

        load(renewal)
    problem = renewal.renew(repo, switch.site, switch.config, before)
    if problem:
        switch.ui.log(b"amalgam", b"snapshots were not renewed: %s\n", problem)


def _close(orig: Callable[..., None], repo: RepoT) -> None:
    """Log what no later opening has given occasion to."""
    _log(repo)
    orig(repo)


def rebuild(repo: RepoT) -> None:
    """Make all snapshots of ``repo`` anew, and all that leans on them."""
    repo = repo.unfiltered()
    switch = _switch(repo)
    if switch is None or switch.site is None:
        raise error.ProgrammingError(b"amalgam is not enabled")
    from . import renewal

    renewal.rebuild(repo, switch.site, switch.config)
    repo.invalidate(clearfilecache=True)


def _switch(repo: RepoT) -> _Switch | None:
    return getattr(repo.svfs, "options", {}).get(_OPTION)


def _follow(*args: Any) -> None:
    with one_at_a_time:
        from . import nodefile, renewal

        load(nodefile, renewal)
    renewal.follow(*args)


def _expect_nothing(_expected: Expected, _start: int, _end: int) -> None:
    """Tell nobody: what was read is in memory."""


def _log(repo: RepoT) -> None:
    switch = _switch(repo)
    if switch is not None:
        switch.log()


def enabled(ui: UiT) -> bool:
    """Tell whether the configuration in ``ui`` enables amalgam."""
    package = sys.modules[__name__.rsplit(".", 2)[0]]
    return any(module is package for _name, module in extensions.extensions(ui))
