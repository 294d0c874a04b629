"""Makes Mercurial open indexes as the configuration says, and remembers what it did.

Two places are wrapped: where the options of a store are resolved from the
configuration, and ``revlog._get_data``, which fetches the bytes of an index. The
mapping itself is Mercurial's, and so is its life: it ends with the index that uses it.

An extension that one repository enables is loaded for the whole process (hgweb serves
many). So a store carries an option of ours only if its repository's own configuration
enables amalgam, and what lacks the option is left to Mercurial.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import TYPE_CHECKING, Any

from mercurial import extensions, exthelper, localrepo, revlog
from mercurial.revlogutils import constants

from .. import compat
from ..configitems import IndexConfig
from .decision import Decision, Reason, reason_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT, UiT, VfsT

eh = exthelper.exthelper()

_OPTION = b"amalgam-index"
_ATTRIBUTE = "_amalgam_decision"  # of a revlog; it lives as long as the mapping


@dataclasses.dataclass(slots=True)
class _Switch:
    """The option of a store: the configuration, and decisions that are not yet logged.

    It refers to neither store nor indexes, which are freed when they are dropped.
    """

    config: IndexConfig
    ui: UiT
    unlogged: dict[bytes, Decision] = dataclasses.field(default_factory=dict)

    def log(self) -> None:
        """Log what was decided since the last call.

        A logger may ask the repository for its changelog, as that of blackbox does.
        While that is being opened, it would be opened a second time.
        """
        unlogged, self.unlogged = self.unlogged, {}
        for name, decision in unlogged.items():
            self.ui.log(b"amalgam", b"%s: %s\n", name, decision.explain())


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    """A file that Mercurial is about to open as an index."""

    size_bytes: int | None
    """``None`` if there is no such file, 0 if it is a docket."""
    inline: bool = False
    """Whether revisions lie between the entries."""
    docket: bool = False
    """Whether it names the file of the index, and is none itself."""


def decisions(repo: RepoT) -> list[Decision]:
    """Return what was decided for the indexes of ``repo``, opening them if need be.

    Changelog and manifest, then the tree manifests that are already open. Nothing if
    the configuration of ``repo`` does not enable amalgam.
    """
    repo = repo.unfiltered()
    changelog, manifest = repo.changelog, repo.manifestlog.getstorage(b"")
    trees = [log for name, log in sorted(manifest._dirlogcache.items()) if name]
    revlogs = [storage.get_revlog() for storage in (changelog, manifest, *trees)]
    _log(repo)
    found = [getattr(opened, _ATTRIBUTE, None) for opened in revlogs]
    return [decision for decision in found if decision is not None]


@eh.wrapfunction(*compat.revlog_options_resolver())
def _resolve_options(
    orig: Callable[..., dict[bytes, Any]], ui: UiT, *args: Any, **kwargs: Any
) -> dict[bytes, Any]:
    """Let our configuration say from which size on indexes are mapped."""
    options = orig(ui, *args, **kwargs)
    if _enabled(ui):
        data_config = options[b"data-config"]
        config = IndexConfig.from_ui(ui, data_config.mmap_index_threshold)
        data_config.mmap_index_threshold = config.threshold_bytes
        options[_OPTION] = _Switch(config, ui)
    return options


@eh.wrapfunction(revlog.revlog, "_get_data")
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

    threshold = switch.config.threshold_bytes
    seen = _look(self.opener, filepath, is_index=size is not None)
    is_mmap_safe = functools.partial(self.opener.is_mmap_safe, filepath)
    reason = reason_for(threshold, seen.size_bytes, seen.inline, is_mmap_safe)
    mapped = reason is Reason.LARGE_ENOUGH
    data = orig(self, filepath, threshold if mapped else None, size)
    if mapped and not isinstance(data, memoryview):
        # Mercurial looked again, and it was no longer the file that was seen.
        seen = dataclasses.replace(seen, size_bytes=len(data))
        reason = reason_for(threshold, seen.size_bytes, seen.inline, lambda: False)

    decision = Decision(
        index=self.display_id,
        path=self.opener.join(filepath),
        size_bytes=seen.size_bytes or 0,
        reason=reason,
        threshold_bytes=threshold,
        item=switch.config.item,
    )
    setattr(self, _ATTRIBUTE, decision)
    if not seen.docket:
        switch.unlogged[decision.index] = decision
    return data


@eh.wrapfunction(localrepo.localrepository, "close")
def _close(orig: Callable[..., None], repo: RepoT) -> None:
    """Log what no later opening has given occasion to."""
    _log(repo)
    orig(repo)


def _log(repo: RepoT) -> None:
    switch = getattr(repo.svfs, "options", {}).get(_OPTION)
    if switch is not None:
        switch.log()


def _look(opener: VfsT, path: bytes, *, is_index: bool) -> _Seen:
    """Look at a file; if it is known to be an index, at its size only."""
    try:
        with opener(path) as file:
            size_bytes = opener.fstat(file).st_size
            header = 0 if is_index else int.from_bytes(file.read(4), "big")
    except FileNotFoundError:
        return _Seen(size_bytes=None)
    version = header & 0xFFFF
    if version in (constants.REVLOGV2, constants.CHANGELOGV2):
        # The index that it names comes in a second call, unless that is empty.
        return _Seen(size_bytes=0, docket=True)
    inline = bool(header & constants.FLAG_INLINE_DATA)
    return _Seen(size_bytes, inline=version == constants.REVLOGV1 and inline)


def _enabled(ui: UiT) -> bool:
    """Tell whether the configuration in ``ui`` enables amalgam."""
    package = sys.modules[__name__.rsplit(".", 2)[0]]
    return any(module is package for _name, module in extensions.extensions(ui))
