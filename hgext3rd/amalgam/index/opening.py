"""Opening of indexes: mapped from a snapshot, and with a node map before them.

Has the replacements of functions that resolve the options of a store, read the bytes of
an index, look nodes up, and change the history. After a change, ``refresh`` updates the
snapshots.

If one repository enables amalgam, the extension is loaded for the whole process, and
hgweb serves many repositories. So a store gets our option only if its own repository
enables amalgam. Stores without the option are left to Mercurial.

A Mercurial built with Rust has an index of its own, and gets no node map. Neither do
indexes that are inline, or not of version 1.
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from typing import TYPE_CHECKING, Any

from mercurial import error, policy
from mercurial.revlogutils import constants

from ..configitems import (
    LEAST_LOOKED_UP_BYTES,
    MMAP_THRESHOLD,
    configtable,
    is_enabled,
    least_mapped,
    row_of,
)
from ..loading import load, one_at_a_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from mercurial.interfaces.types import RepoT, TransactionT, UiT, VfsT

    from ..trust import Trust
    from .buffer import Mapped
    from .current import Current
    from .decision import Decision
    from .mapping import Site
    from .snapshot import FileStat, Snapshot


_OPTION = b"amalgam-index"
_OURS = b"experimental"
# without one of ours: whether indexes are mapped at all, and from which size on
_STOCK = (b"storage.revlog.mmap.index", b".".join(MMAP_THRESHOLD))


class Opened:
    """How the index of a revlog got into memory."""

    __slots__ = ("data", "decide", "expect", "find", "handle")

    def __init__(
        self,
        decide: Callable[[], Decision],
        data: Any,
        find: Callable[[], Snapshot | None] | None = None,
        mapped: Mapped | None = None,
    ) -> None:
        self.decide = decide
        """Returns the decision. Refers to no ui, which may lead to the revlog."""
        self.data = data
        """All of it: a read-only buffer, which owns its memory."""
        self.find = find
        """Returns the snapshot of the mapped bytes; ``None`` if all were read."""
        self.expect = mapped.expect if mapped else _expect_nothing
        """Tells the kernel the expected use of a range of bytes."""
        self.handle = mapped and mapped.handle
        """``amalgam_mapped *``, if it is mapped; else ``None``."""

    @property
    def decision(self) -> Decision:
        """Whether it was mapped, and why."""
        return self.decide()

    @property
    def snapshot(self) -> Snapshot | None:
        """Snapshot of the mapped bytes; ``None`` if all bytes were read."""
        return self.find() if self.find else None


# by revlog: each lives as long as its mapping
_opened: weakref.WeakKeyDictionary[Any, Opened] = weakref.WeakKeyDictionary()


class _Switch:
    """The option of a store: the configuration, and decisions that are not yet logged.

    It refers to neither store nor indexes, which are freed when they are dropped.
    """

    def __init__(
        self,
        ui: UiT,
        threshold_bytes: int | None,
        item: bytes,
        prefault: bytes,
        node_map_bytes: int,
    ) -> None:
        self.ui = ui
        self.threshold_bytes = threshold_bytes
        """The size from which on indexes are mapped; ``None``: none is."""
        self.item = item
        """The config item that decided."""
        self.prefault = prefault
        """One of ``configitems.PREFAULTS``."""
        self.node_map_bytes = node_map_bytes
        """The size from which on mapped indexes get a node map."""
        # those of store and .hg, not known until the repository object is made
        self.paths: tuple[bytes, bytes] | None = None
        self._site: Site | None = None
        # Indexes as the running transaction found them. It only appends to them, so
        # that what was their beginning then still is. Empty if that is not so.
        self.before: dict[bytes, FileStat] = {}
        self.unlogged: dict[bytes, Callable[[], Decision]] = {}

    def threshold_for(self, opener: VfsT, path: bytes, size_bytes: int) -> int:
        """Return the size from which on a closer look at an index at ``path`` pays.

        That takes longer than to read a small one. So by default, small ones get it
        only where the snapshots are the user's own: later commands need none there.
        """
        least = self.threshold_bytes or 0
        if size_bytes >= self.node_map_bytes:
            return least
        with contextlib.suppress(OSError):
            is_own = self.paths and os.stat(self.paths[1]).st_uid == os.geteuid()
            if is_own and opener.is_mmap_safe(path):
                return least
        return self.node_map_bytes

    @property
    def site(self) -> Site | None:
        """Where snapshots are, if that is known."""
        if self._site is None and self.paths is not None:
            with one_at_a_time:
                from . import mapping

                load(mapping)
            with contextlib.suppress(OSError):  # no store, and nothing to map
                self._site = mapping.Site.of(
                    *self.paths, self.prefault, _follow, self.ui
                )
        return self._site

    def log(self) -> None:
        """Log the decisions since the last call.

        Not at once: a logger such as blackbox's may ask the repository for its
        changelog, which would be opened a second time.
        """
        unlogged, self.unlogged = self.unlogged, {}
        if getattr(self.ui, "_loggers", True):  # a phrase takes a module
            for name, decide in unlogged.items():
                explained = decide().explain()
                self.ui.log(b"amalgam-index", b"%s: %s\n", name, explained)


def opened_index(revlog: Any) -> Opened | None:
    """Return how the index of ``revlog`` was opened.

    ``None`` if that was left to Mercurial: the repository does not enable amalgam, or
    it is a filelog.
    """
    return _opened.get(revlog)


def mapped_index(revlog: Any) -> Any:
    """Return the ``amalgam_mapped *`` of an index that the core can use, if any."""
    found = opened_index(revlog)
    return found.handle if found is not None and is_plain(revlog) else None


def mapped_indexes(repo: RepoT) -> tuple[Any, Any]:
    """Return the indexes of changelog and manifest that the core can use, else None."""
    changelog = mapped_index(repo.unfiltered().changelog)
    if changelog is None:
        return None, None
    return changelog, mapped_index(repo.manifestlog.getstorage(b"").get_revlog())


def is_plain(revlog: Any) -> bool:
    """Return whether entries are of version 1, without a docket."""
    return getattr(revlog, "_docket", None) is None


def trust(opener: VfsT) -> Trust | None:
    """Return the trust in files of the store of ``opener``.

    ``None`` if unknown: the repository object is not complete yet.
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
    found = map(opened_index, revlogs)
    return [how for how in found if how is not None]


def decisions(repo: RepoT) -> list[Decision]:
    """Return the decisions for the indexes of ``repo``, as ``open_indexes``."""
    return [how.decision for how in open_indexes(repo)]


def resolve_options(
    orig: Callable[..., dict[bytes, Any]],
    ui: UiT,
    requirements: Collection[bytes],
    *args: Any,
    **kwargs: Any,
) -> dict[bytes, Any]:
    """Set the size from which indexes are mapped, and whether node maps are wanted.

    Mercurial's own node map is not slow then.
    """
    if not is_enabled(ui):
        return orig(ui, requirements, *args, **kwargs)
    is_set = _is_set(ui)
    if is_set:
        with one_at_a_time:
            from .. import config

            load(config)
    with_node_map = not is_set or config.wants_node_map(ui)
    overrides = {}
    may_be_slow = with_node_map and b"persistent-nodemap" in requirements
    if may_be_slow and not ui.hasconfig(*_SLOW_PATH):
        overrides[_SLOW_PATH] = b"allow"
    with (
        ui.configoverride(overrides, b"amalgam")
        if overrides
        else contextlib.nullcontext()
    ):
        options = orig(ui, requirements, *args, **kwargs)
    data_config = options[b"data-config"]
    stock_bytes = least_mapped(ui, data_config.mmap_index_threshold)
    items = (stock_bytes, _STOCK[stock_bytes is not None], b"none")
    if is_set:
        items = config.IndexConfig.from_ui(ui, stock_bytes)
    # who sets an item wants instant look-ups, too
    choices = (MMAP_THRESHOLD, *((_OURS, name) for name in configtable[_OURS]))
    is_chosen = any(ui.hasconfig(*item) for item in choices)
    node_map_bytes = 0 if is_chosen else LEAST_LOOKED_UP_BYTES
    options[_OPTION] = switch = _Switch(ui, *items, node_map_bytes)
    data_config.mmap_index_threshold = switch.threshold_bytes
    if with_node_map:
        options[_NODE_MAP_OPTION] = True
    return options


def _is_set(ui: UiT) -> bool:
    """Return whether an item of indexes is set, or an unknown one.

    If not, ``config`` need not be loaded.
    """
    for name, _value in ui.configitems(b"amalgam", untrusted=True):
        if name.startswith(b"index.") or row_of(b"amalgam." + name) is None:
            return True
    return any(ui.hasconfig(_OURS, name, untrusted=True) for name in configtable[_OURS])


def init(orig: Callable[..., None], repo: RepoT, *args: Any, **kwargs: Any) -> None:
    """Let the store know where its snapshots are, before anybody opens an index."""
    orig(repo, *args, **kwargs)
    switch = _switch(repo)
    if switch is not None:
        switch.paths = repo.store.path, repo.sharedpath


def get_data(
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

    name, path = self.display_id, self.opener.join(filepath)
    found = _read(self.opener, filepath, size, switch)
    size_bytes, threshold, data, current = found
    if current is not None:
        data = current.data
        _opened[self] = Opened(
            functools.partial(
                _decide_to_map, name, path, size_bytes, threshold, switch.item
            ),
            data,
            # the switch has a ui
            functools.partial(_snapshot_of, weakref.ref(switch), *current.docket),
            current.mapped,
        )
        switch.unlogged[name] = _opened[self].decide
        return data
    if data is not None:
        header = 0 if size is not None else int.from_bytes(data[:4], "big")
        is_temporary = size is None and not filepath.endswith(b".i")
        decide = functools.partial(
            _decide_to_read,
            *(name, path, size_bytes, header, is_temporary, threshold, switch.item),
        )
        _opened[self] = Opened(decide, data)
        # the index that a docket names comes in a second call, unless that is empty
        if header & 0xFFFF not in (constants.REVLOGV2, constants.CHANGELOGV2):
            switch.unlogged[name] = decide
        return data

    with one_at_a_time:
        from . import decision, indexfile

        load(decision, indexfile)
    data, detail = None, b""
    how: tuple[Any, ...] = ()
    with indexfile.open_candidate(self.opener, filepath, size) as seen:
        reason = seen.reason(threshold, lambda: switch.site)
        if reason is decision.Reason.LARGE_ENOUGH and switch.site is not None:
            from . import mapping

            in_transaction = functools.partial(self.opener.exists, b"journal")
            try:
                mapped, snapshot = switch.site.open(seen.file, in_transaction)
                data, how = mapped.data, (lambda: snapshot, mapped)
            except mapping.Unavailable as exc:
                reason, detail = exc.reason, exc.detail
    if data is None:
        data = orig(self, filepath, None, size)

    seen_bytes = seen.size_bytes or 0
    decided = decision.Decision(
        *(name, path, seen_bytes, reason, threshold, switch.item, detail)
    )
    _opened[self] = Opened(lambda: decided, data, *how)
    if not seen.docket:
        switch.unlogged[name] = lambda: decided
    return data


def _read(
    opener: VfsT, path: bytes, limit_bytes: int | None, switch: _Switch
) -> tuple[int | None, int | None, Any, Current | None]:
    """Return size, threshold and first bytes of a file, as Mercurial reads them.

    Instead of bytes, the mapped index if the file is large enough and its snapshot is
    known to be current. Neither for another file of that size. No size of a missing
    file.
    """
    try:
        with opener(path) as file:
            size_bytes = int(opener.fstat(file).st_size)
            least, current = switch.threshold_bytes, None
            if least is not None and size_bytes >= max(least, 1):
                if limit_bytes is None and hasattr(file, "fileno"):
                    current = _current(opener, path, file.fileno(), size_bytes, switch)
                if current is None:
                    least = switch.threshold_for(opener, path, size_bytes)
                if size_bytes >= least:
                    return size_bytes, least, None, current
            content = file.read(-1 if limit_bytes is None else limit_bytes)
            return size_bytes, least, content, None
    except FileNotFoundError:
        return None, switch.threshold_bytes, b"", None


def _current(
    opener: VfsT, path: bytes, fd: int, size_bytes: int, switch: _Switch
) -> Current | None:
    """Map the snapshot of an index if that takes no closer look."""
    if switch.paths is None or not opener.is_mmap_safe(path):
        return None
    with one_at_a_time:
        from . import current

        load(current)
    by_core = size_bytes >= switch.node_map_bytes or switch.prefault != b"none"
    where = switch.paths[1], path, fd
    return current.find(*where, switch.prefault, by_core=by_core)


def _decide_to_map(
    name: bytes, path: bytes, size_bytes: int | None, *limit: Any
) -> Decision:
    """Return the decision for an index that was mapped without a closer look."""
    from . import decision

    reason = decision.Reason.LARGE_ENOUGH
    return decision.Decision(name, path, size_bytes or 0, reason, *limit)


def _snapshot_of(
    switch: weakref.ref[_Switch], name: bytes, *fields: Any
) -> Snapshot | None:
    """Return the snapshot of an index that was mapped without a closer look."""
    alive = switch()
    site = alive.site if alive else None
    if site is None:
        return None
    from . import snapshot

    uid, length_bytes, data = fields
    stats = snapshot.FileStat(*data)
    places = site.snapshots.directory, site.trust
    return snapshot.Snapshot(*places, name, uid, length_bytes, stats)


def _decide_to_read(
    name: bytes,
    path: bytes,
    size_bytes: int | None,
    header: int,
    is_temporary: bool,
    *limit: Any,
) -> Decision:
    """Return the decision for an index that is too small to be mapped."""
    from . import decision

    version, flags = header & 0xFFFF, header & constants.FLAG_INLINE_DATA
    if version in (constants.REVLOGV2, constants.CHANGELOGV2):
        size_bytes = 0
    is_inline = version == constants.REVLOGV1 and bool(flags)
    reason = decision.reason_for(limit[0], size_bytes, is_inline, is_temporary, bool)
    return decision.Decision(name, path, size_bytes or 0, reason, *limit)


def transaction(
    orig: Callable[..., TransactionT], repo: RepoT, *args: Any, **kwargs: Any
) -> TransactionT:
    """Note the state of indexes before a transaction appends to them."""
    switch = _switch(repo)
    if switch is not None and repo.currenttransaction() is None:
        with one_at_a_time:
            from . import refresh

            load(refresh)
        switch.before = refresh.states(repo)
    return orig(repo, *args, **kwargs)


def strip(orig: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    """Know that an index does not only grow."""
    switch = self.opener.options.get(_OPTION)
    if switch is not None:
        switch.before = {}
    orig(self, *args, **kwargs)


def updatecaches(
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
        from . import refresh

        load(refresh)
    problem = refresh.renew(repo, switch.site, switch.threshold_bytes, before)
    if problem:
        switch.ui.log(b"amalgam-index", b"snapshots were not renewed: %s\n", problem)


def close(orig: Callable[..., None], repo: RepoT) -> None:
    """Log decisions that no later opening has logged."""
    _log(repo)
    orig(repo)


def rebuild(repo: RepoT) -> None:
    """Make all snapshots of ``repo`` anew, and all that leans on them."""
    repo = repo.unfiltered()
    switch = _switch(repo)
    if switch is None or switch.site is None:
        raise error.ProgrammingError(b"amalgam is not enabled")
    from . import refresh

    refresh.rebuild(repo, switch.site, switch.threshold_bytes)
    repo.invalidate(clearfilecache=True)


def _switch(repo: RepoT) -> _Switch | None:
    return getattr(repo.svfs, "options", {}).get(_OPTION)


def _follow(*args: Any) -> None:
    with one_at_a_time:
        from . import nodemapfile, refresh

        load(nodemapfile, refresh)
    refresh.follow(*args)


def _expect_nothing(_expected: int, _start: int, _end: int) -> None:
    """Do nothing: bytes that were read are in memory."""


def _log(repo: RepoT) -> None:
    switch = _switch(repo)
    if switch is not None:
        switch.log()


parsers = policy.importmod("parsers")

_NODE_MAP_OPTION = b"amalgam-node-map"
_SLOW_PATH = (b"storage", b"revlog.persistent-nodemap.slow-path")
_WITHIN = (b"experimental", b"revisions.disambiguatewithin")
_NODETREE = b"disambiguationnodetree"


def load_inner(orig: Callable[..., None], self: Any, *args: Any) -> None:
    """Put the node map before a C index that has been opened."""
    orig(self, *args)
    opened = opened_index(self)
    if opened is None or _NODE_MAP_OPTION not in self.opener.options:
        return
    is_large = len(opened.data) >= self.opener.options[_OPTION].node_map_bytes
    if self._nodemap_file is None and not (opened.handle and is_large):
        return
    found = getattr(self._inner, "index", None)  # not if it is written in Rust
    if type(found) is not getattr(parsers, "index", object):
        return
    with one_at_a_time:
        from . import buffer, nodemap

        load(buffer, nodemap, nodemap)
    index: Any = found
    plain = self._format_version == constants.REVLOGV1 and not self._inline
    if plain and len(opened.data) == len(index) * nodemap.ENTRY_LEN:
        source = nodemap.NodeSource(
            opened.find,
            self.opener,
            self._nodemap_file,
            self.radix,
            index,
            trust,
        )
        opened.expect(buffer.FEW_PLACES, 0, len(opened.data))
        self.index = nodemap.MappedIndex(index, opened.data, source, opened.expect)


def shortesthexnodeidprefix(
    orig: Callable[..., bytes],
    repo: RepoT,
    node: bytes,
    minlength: int = 1,
    cache: dict[bytes, Any] | None = None,
) -> bytes:
    """Make the tree of nodes that only a C index can be given to."""
    index = repo.unfiltered().changelog.index
    if not repo.ui.config(*_WITHIN):
        return orig(repo, node, minlength, cache)
    with one_at_a_time:
        from . import nodemap

        load(nodemap)
    if isinstance(index, nodemap.MappedIndex):
        cache = {} if cache is None else cache
        if cache.get(_NODETREE) is None:
            cache[_NODETREE] = parsers.nodetree(index._index, 1)
    return orig(repo, node, minlength, cache)
