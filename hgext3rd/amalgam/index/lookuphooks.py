"""Hooks that put a node map in front of the indexes that Mercurial opens.

A Mercurial built with Rust has an index of its own, which stays as it is. So do indexes
that are inline, or not of version 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import extensions, policy, revlog, scmutil
from mercurial.revlogutils import constants

from .. import compat
from ..config import wants_node_map
from ..loading import load, one_at_a_time
from . import openhooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT, UiT

parsers = policy.importmod("parsers")

_OPTION = b"amalgam-node-map"
_SLOW_PATH = (b"storage", b"revlog.persistent-nodemap.slow-path")
_WITHIN = (b"experimental", b"revisions.disambiguatewithin")
_NODETREE = b"disambiguationnodetree"


def install() -> None:
    """Wrap what Mercurial makes of the bytes of an index, and one that uses it."""
    for container, name, wrapper in (
        (revlog.revlog, "_load_inner", _load_inner),
        (*compat.revlog_options_resolver(), _resolve_options),
        (scmutil, "shortesthexnodeidprefix", _shortesthexnodeidprefix),
    ):
        extensions.wrapfunction(container, name, wrapper)


def _load_inner(orig: Callable[..., None], self: Any, *args: Any) -> None:
    """Put the node map before a C index that has been opened."""
    orig(self, *args)
    opened = openhooks.opened(self)
    if opened is None or _OPTION not in self.opener.options:
        return
    if opened.snapshot is None and self._nodemap_file is None:
        return
    found = getattr(self._inner, "index", None)  # not if it is written in Rust
    if type(found) is not getattr(parsers, "index", object):
        return
    with one_at_a_time:
        from . import buffer, nodemap, nodesource

        load(buffer, nodemap, nodesource)
    index: Any = found
    plain = self._format_version == constants.REVLOGV1 and not self._inline
    if plain and len(opened.data) == len(index) * nodemap.ENTRY_LEN:
        source = nodesource.NodeSource(
            opened.snapshot,
            self.opener,
            self._nodemap_file,
            self.radix,
            index,
            openhooks.trust,
        )
        opened.expect(buffer.Expected.FEW_PLACES, 0, len(opened.data))
        self.index = nodemap.MappedIndex(index, opened.data, source, opened.expect)


def _resolve_options(
    orig: Callable[..., dict[bytes, Any]], ui: UiT, *args: Any, **kwargs: Any
) -> dict[bytes, Any]:
    """Note whether node maps are wanted, and that Mercurial's are then not slow."""
    wanted = openhooks.enabled(ui) and wants_node_map(ui)
    overrides = {}
    if wanted and not ui.hasconfig(*_SLOW_PATH):
        overrides[_SLOW_PATH] = b"allow"
    with ui.configoverride(overrides, b"amalgam"):
        options = orig(ui, *args, **kwargs)
    if wanted:
        options[_OPTION] = True
    return options


def _shortesthexnodeidprefix(
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
